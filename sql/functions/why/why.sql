-- What holds a message, a half message or a group up, and what would move it. Each row is a cause,
-- a stable word that docs/why.md lists, with its facts. `remedy` is what somebody can do about
-- it: {"function": …, "arguments": {…}} of a function of mqpg, where an argument that is null is
-- for the caller to choose; null if it ends by itself, or if no such function ends it. There is no
-- row if nothing holds it up: every group has acknowledged the message, or the group has nothing to
-- do. why() runs as its caller, so that PostgreSQL decides what the caller may see of the session
-- that detail names by its `pid`: how long its transaction is open, its role, application and
-- state.

-- Why a message has not reached every consumer group of its topic. A caller with the right to
-- produce for its half message, and without the right to receive from its topic, learns what holds
-- it up until it has its offset.
-- Arguments:
--   message_id: id of the message.
-- Locks: none.
-- Cost: a few index lookups for each group of the topic; reads the server's list of locks.
-- Errors: MQ001 (null, negative, or no such message), MQ025.
create function mqpg.why(message_id bigint) returns table (cause text, detail jsonb, remedy jsonb)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select w.cause, w.detail || mqpg._session_facts(w.detail), w.remedy
    from mqpg._why(why.message_id) w
$$;

-- Why the half message of a handle has not reached every consumer group of its topic.
-- Arguments:
--   handle: the handle from prepare().
-- Locks: none.
-- Cost: as for its message id.
-- Errors: MQ001 (null), MQ006 (no such half message), MQ025.
create function mqpg.why(handle text) returns table (cause text, detail jsonb, remedy jsonb)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select w.cause, w.detail || mqpg._session_facts(w.detail), w.remedy
    from mqpg._why(why.handle) w
$$;

-- Why a consumer group does not get on with a topic.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
-- Returns: at most 100 rows.
-- Locks: none.
-- Cost: two index lookups for each queue; reads the server's list of locks for each queue with
-- unread messages, at most 100 of them.
-- Errors: MQ001 (null), MQ002 (name), MQ003 (unknown topic), MQ025.
create function mqpg.why(consumer_group text, topic text) returns table (cause text, detail jsonb, remedy jsonb)
language sql stable set search_path = pg_catalog, pg_temp as $$
    select w.cause, w.detail || mqpg._session_facts(w.detail), w.remedy
    from mqpg._why(why.consumer_group, why.topic) w
$$;

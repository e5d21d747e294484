-- The handle of the half message that had this dedup id before, for a topic without space or a group
-- without room: a repetition stores nothing, and a producer that rolls back must learn the handle.
-- Null: there is none, or the caller may not prepare. The id is registered then, so the caller must
-- raise.
-- Locks, cost: those of _prepared_before().
create function mqpg._prepared_without_room(topic text, producer_group text, dedup_id text) returns text
language plpgsql as $$
declare
    v_to record;
begin
    select t.topic_id, t.senders, g.producer_group_id, g.producers into v_to
    from mqpg.topic t
    cross join mqpg.producer_group g
    where t.name = _prepared_without_room.topic and g.name = _prepared_without_room.producer_group;
    if not found or not (mqpg._is_among(v_to.senders) or mqpg._has_right('send', v_to.topic_id))
        or not (mqpg._is_among(v_to.producers) or mqpg._has_right('produce', v_to.producer_group_id)) then
        return null;    -- _require_topic() or _require_producer_group() says why
    end if;
    perform pg_current_xact_id();    -- before the batch id: the appender relies on this order
    return mqpg._prepared_before(v_to.topic_id, _prepared_without_room.dedup_id, nextval('mqpg.batch_id') * 1024,
        v_to.producer_group_id);
end
$$;

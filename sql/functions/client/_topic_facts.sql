-- What the library needs to know of a topic before it sends or receives. No row: there is no such
-- topic.
-- Locks: none. Cost: negligible.
create function mqpg._topic_facts(topic text) returns table (queues int, kind text, max_payload int)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select t.queues, t.kind, t.max_payload from mqpg.topic t where t.name = _topic_facts.topic;
end
$$;
comment on function mqpg._topic_facts(text) is
    'Internal: what the library needs to know of a topic';

-- The row that says that no group reads a topic.
-- Locks: none. Cost: negligible.
create function mqpg._why_nobody(topic text) returns table (cause text, detail jsonb, remedy text)
language sql stable as $$
    select 'no_group', jsonb_build_object('topic', _why_nobody.topic),
        format('No group reads the topic: select mqpg.subscribe(''GROUP'', %L);', _why_nobody.topic)
$$;

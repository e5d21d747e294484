-- The row that says that no group reads a topic.
-- Locks: none. Cost: negligible.
create function mqpg._why_nobody(topic text) returns table (cause text, detail jsonb, remedy jsonb)
language sql stable as $$
    select 'no_group', jsonb_build_object('topic', _why_nobody.topic),
        mqpg._remedy('subscribe', jsonb_build_object('consumer_group', null, 'topic', _why_nobody.topic))
$$;

-- What the library needs to know of a subscription before it receives. No row: there is none.
-- Locks: none. Cost: negligible.
create function mqpg._subscription_facts(consumer_group text, topic text) returns table (mode text, on_failure text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select s.mode, s.on_failure
    from mqpg.subscription s
    join mqpg.topic t on t.topic_id = s.topic_id
    where s.consumer_group = _subscription_facts.consumer_group and t.name = _subscription_facts.topic
        and s.member = '';
end
$$;
comment on function mqpg._subscription_facts(text, text) is
    'Internal: what the library needs to know of a subscription';

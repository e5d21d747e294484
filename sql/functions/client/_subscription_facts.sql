-- What the library needs to know of a subscription before it receives. No row: there is none.
-- Locks: none. Cost: negligible.
create function mqpg._subscription_facts(consumer_group text, topic text) returns table (mode text, on_failure text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not mqpg._has_privilege('operator') then
        begin
            perform mqpg._require_subscription(_subscription_facts.consumer_group, _subscription_facts.topic);
        exception when sqlstate 'MQ003' or sqlstate 'MQ005' then
            return;
        end;
    end if;
    return query
    select s.mode, s.on_failure
    from mqpg.subscription s
    join mqpg.topic t on t.topic_id = s.topic_id
    where s.consumer_group = _subscription_facts.consumer_group and t.name = _subscription_facts.topic
        and s.member = '';
end
$$;

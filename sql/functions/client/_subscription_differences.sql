-- What a subscription has otherwise than a consumer that reads it says: the option, and both values as text.
-- Arguments: consumer_group, topic; the others: what the consumer says.
-- Locks: none. Cost: negligible.
create function mqpg._subscription_differences(
    consumer_group text, topic text, filter text, tags text [], max_attempts int, retry_delay interval,
    on_failure text
) returns table (name text, has text, wanted text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    if not mqpg._has_privilege('operator') then
        begin
            perform mqpg._require_subscription(
                _subscription_differences.consumer_group, _subscription_differences.topic);
        exception when sqlstate 'MQ003' or sqlstate 'MQ005' then
            return;
        end;
    end if;
    return query
    select d.name, coalesce(d.has, 'not set'), coalesce(d.wanted, 'not set')
    from mqpg.subscription s
    inner join mqpg.topic t using (topic_id)
    cross join lateral (values
        ('filter', s.filter::text, nullif(_subscription_differences.filter::jsonpath::text, 'true')),
        ('tags', array(select distinct g from unnest(s.tags) g order by 1)::text,
            array(select distinct g from unnest(_subscription_differences.tags) g order by 1)::text),
        ('max_attempts', s.max_attempts::text, _subscription_differences.max_attempts::text),
        ('retry_delay', s.retry_delay::text, mqpg._seconds(_subscription_differences.retry_delay)::text),
        ('on_failure', s.on_failure, _subscription_differences.on_failure)
    ) as d (name, has, wanted)
    where s.consumer_group = _subscription_differences.consumer_group and t.name = _subscription_differences.topic
        and s.member = '' and d.has is distinct from d.wanted;
end
$$;

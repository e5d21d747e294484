-- Topics that take no more messages, because they or the broker were at their max_bytes when they were
-- last measured, about two seconds ago.
-- Locks: none. Cost: one row for each topic.
create function mqpg._full_topics() returns table (topic text, full_of text, max_bytes bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select t.name, t.full_of, case t.full_of
        when 'topic' then t.max_bytes
        else mqpg._setting('max_bytes')::bigint
    end
    from mqpg.topic t where t.full_of is not null order by t.name;
end
$$;

-- What holds a group up in a topic, in short, for the overview of all groups.
-- Returns: at most five causes, each with one remedy. No row for an unknown topic.
-- Locks: none.
-- Cost: that of why(consumer_group, topic).
create function mqpg._group_causes(consumer_group text, topic text) returns table (cause text, remedy text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select w.cause, min(w.remedy)
    from mqpg.topic t
    cross join lateral mqpg._why_subscription(_group_causes.consumer_group, t) w
    where t.name = _group_causes.topic
    group by w.cause
    order by w.cause limit 5;
end
$$;
comment on function mqpg._group_causes(text, text) is 'Internal: what holds a group up, for the overview';

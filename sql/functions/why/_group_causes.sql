-- What holds a group up in a topic, in short, for the overview of all groups.
-- Returns: at most five causes, each with one remedy, which names the other queues of which it is
-- so too. No row for an unknown topic.
-- Locks: none.
-- Cost: that of why(consumer_group, topic).
create function mqpg._group_causes(consumer_group text, topic text) returns table (cause text, remedy text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select c.cause, c.remedy || case cardinality(c.queues[2:])
        when 0 then ''
        else format(' The same holds for queue%s %s%s.', case when cardinality(c.queues) > 2 then 's' else '' end,
            array_to_string(c.queues[2:11], ', '),
            ' and ' || nullif(greatest(cardinality(c.queues) - 11, 0), 0) || ' more')
    end
    from (
        select w.cause, (array_agg(w.remedy order by (w.detail ->> 'queue_id')::int, w.remedy))[1] as remedy,
            coalesce(array_agg(distinct (w.detail ->> 'queue_id')::int) filter (where w.detail ? 'queue_id'), '{}')
                as queues
        from mqpg.topic t
        cross join lateral mqpg._why_subscription(_group_causes.consumer_group, t) w
        where t.name = _group_causes.topic
        group by w.cause
    ) as c
    order by c.cause limit 5;
end
$$;

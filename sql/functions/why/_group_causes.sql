-- What holds a group up in a topic, in short, for the overview of all groups.
-- Returns: at most five causes. If several queues have the same one, it is that of the first, with
-- the numbers of all of them as `queues`. No row for an unknown topic.
-- Locks: none. Cost: that of why(consumer_group, topic).
create function mqpg._group_causes(consumer_group text, topic text)
returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select c.cause, c.detail - mqpg._why_hidden(c.topic_id) || case
        when cardinality(c.queues) > 1 then jsonb_build_object('queues', c.queues)
        else '{}'
    end, c.remedy
    from (
        select t.topic_id, w.cause,
            (array_agg(w.detail order by (w.detail ->> 'queue_id')::int, w.remedy))[1] as detail,
            (array_agg(w.remedy order by (w.detail ->> 'queue_id')::int, w.remedy))[1] as remedy,
            array_agg(distinct (w.detail ->> 'queue_id')::int) filter (where w.detail ? 'queue_id') as queues
        from mqpg.topic t
        cross join lateral mqpg._why_subscription(_group_causes.consumer_group, t) w
        where t.name = _group_causes.topic
        group by t.topic_id, w.cause
    ) as c
    order by c.cause limit 5;
end
$$;

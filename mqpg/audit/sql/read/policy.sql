-- When topics had a policy by which groups lose messages, by the reason that position jumps give.
-- after_id, before_id: it explains jumps with numbers in between. A transaction may still have used it
-- for an hour after it was replaced, until used_until. known: false for the time before the broker
-- noted its policies.
select p.topic_id, p.why, p.after_id, p.before_id, p.used_until, p.value <> 'unknown' as known
from (
    select
        s.*,
        lag(s.before_id) over (partition by s.topic_id, s.why order by s.before_id nulls last) as after_id
    from (
        select
            t.topic_id, w.why,
            null::bigint as before_id,
            null::timestamptz as used_until,
            w.value
        from mqpg_audit.topic as t
        cross join lateral (
            values ('expired', t.message_ttl::text), ('age', t.lose_after::text), ('size', t.lose_over::text)
        ) as w (why, value)
        union all
        select
            f.topic_id,
            case f.name when 'message_ttl' then 'expired' when 'lose_after' then 'age' else 'size' end,
            f.setting_id,
            f.replaced_at + interval '1 hour',
            f.value
        from mqpg_audit.setting_change as f
        where f.name in ('message_ttl', 'lose_after', 'lose_over')
    ) as s
) as p
where p.value is not null

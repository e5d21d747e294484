-- Halves that are neither decided nor parked. check_at is when the next check is due. They are in the op-log queue,
-- or newer than the last pass that fed it, so the log is not searched.
-- Cost: a few lookups for each entry of the op-log queue and each half of about the last second.
create view mqpg.half_pending as
with newest as materialized (
    select h.snapshot from mqpg.half_tick h order by h.half_tick_id desc limit 1
),
candidate as (
    select (q.message ->> 'message_id')::bigint as message_id, q.vt as check_at from pgmq.q_mqpg_oplog q
    union all
    select l.batch_id * 1024 + i.i, l.check_at
    from mqpg.commit_log l
    cross join lateral generate_series(0, l.n - 1) as i(i)
    where l.kind = 'h' and l.xid >= coalesce((select pg_snapshot_xmax(n.snapshot) from newest n), '0'::xid8)
    union all
    select l.batch_id * 1024 + i.i, l.check_at
    from mqpg.commit_log l
    cross join lateral generate_series(0, l.n - 1) as i(i)
    where l.kind = 'h' and l.xid = any(array(select pg_snapshot_xip(n.snapshot) from newest n))
)
select mqpg._handle(c.message_id, m.nonce) as handle, g.name as producer_group, t.name as topic,
    m.born_at as prepared_at, c.check_at, k.checks, r.reason
from candidate c
cross join lateral (
    select l.topic_id, l.producer_group_id, l.nonce, l.born_at
    from mqpg.commit_log l where l.batch_id = c.message_id / 1024
    union all
    select h.topic_id, h.producer_group_id, h.nonce, h.born_at
    from mqpg.held h where h.message_id = c.message_id
    limit 1
) as m
join mqpg.topic t on t.topic_id = m.topic_id
left join mqpg.producer_group g on g.producer_group_id = m.producer_group_id
cross join lateral mqpg._checks(c.message_id) as k
left join lateral (
    select e.reason from mqpg.check_log e where e.message_id = c.message_id and e.reason is not null
    order by e.at desc limit 1
) as r on true
where not mqpg._is_decided(c.message_id);
comment on view mqpg.half_pending is 'Undecided half messages that are not parked';

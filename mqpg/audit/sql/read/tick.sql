-- The ticks of the appender. The last judged one is read again, because the next one is compared with
-- it. appended: how many messages the queues have of it. Null where retention has left rows out. A tick of
-- another cluster has, since adopt(), transaction 2 and a snapshot that does not see it. It saw what it appended,
-- whose transaction ids are 1 and 2 now.
select
    t.tick_id,
    case when t.xid = '2' then '3:3:' else t.snapshot end::pg_snapshot as snapshot,
    coalesce(t.due_until, '-infinity') as due_until,
    t.appended_at as at,
    greatest(t.xid::xid8, '3') as xid,
    t.floor_id, t.batch_seq, t.messages,
    t.snapshot_xmax::xid8 <> pg_snapshot_xmax(t.snapshot::pg_snapshot) as looked_up_wrongly,
    case when exists (
        select from mqpg_audit.segment as s
        where s.family = 'tick' and s.dropped_at is null and s.left_out = '{}'
            and t.tick_id >= s.lower_bound and t.tick_id < s.upper_bound
    ) then coalesce(c.n, 0) end as appended
from mqpg_audit.tick as t
cross join judged as j
left join (
    select q.tick_id, sum(q.n)::bigint as n
    from mqpg_audit.queue_row as q
    cross join judged as b
    where q.tick_id >= case when b.reading then b.last_tick else -1 end
    group by 1
) as c on c.tick_id = t.tick_id
where t.tick_id >= case when j.reading then j.last_tick else -1 end
    and t.tick_id <= case when j.reading then 9223372036854775807 else j.last_tick end

-- The last tick that can count as judged from now on: all that it and the ticks before it appended
-- is behind every subscription. No transaction can write a message with an id below until_id any
-- more: the tick says so, or all transactions that are older than it were over in the snapshot of
-- this audit. Below that id, a message of a later tick is open.
select
    t.tick_id,
    greatest(j.until_id, (t.floor_id + 1) << 10, (
        select (max(k.batch_seq) + 1) << 10
        from tick as k
        where k.tick_id <= t.tick_id and k.xid <= pg_snapshot_xmin(%(snapshot)s::pg_snapshot)
    )) as until_id
from tick as t
cross join judged as j
where t.tick_id < coalesce((
    select min(e.tick_id)
    from entry as e
    join place as p on p.topic_id = e.topic_id and p.lane = e.lane and p.queue_id = e.queue_id
    join cursor_now as c on c.subscription_id = p.subscription_id and c.queue_id = p.queue_id
    where e.queue_offset >= least(p.next_offset, c.committed)
), 9223372036854775807)
order by t.tick_id desc
limit 1

-- Messages that a tick appended which had not seen their commit (unseen), or before their time
-- (undue), or that the tick before had seen already (late). Transaction ids up to 2 stand for rows of
-- another cluster.
select m.*
from (
    select
        e.topic_id, e.topic, e.queue_id, e.queue_offset, e.tick_id, e.message_id, e.commit_xid, e.place,
        not pg_visible_in_snapshot(e.commit_xid, k.snapshot) as unseen,
        coalesce(e.due_at > k.due_until, false) as undue,
        coalesce(pg_visible_in_snapshot(e.commit_xid, k.seen_before) and e.commit_xid > '2', false) as late
    from entry as e
    join (
        select t.tick_id, t.snapshot, t.due_until, b.snapshot as seen_before
        from tick as t
        left join tick as b on b.tick_id = t.tick_id - 1
    ) as k on k.tick_id = e.tick_id
    where e.lane = 0 and e.state = 'committed'
) as m
where m.unseen or m.undue or m.late

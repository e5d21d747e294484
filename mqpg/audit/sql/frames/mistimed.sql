-- Messages and retries that a tick appended which had not seen their transaction (unseen), or before their
-- time (undue), or that the tick before had to append (late). Of a retry that was scheduled several times as
-- the same attempt, the first row may be early and the last one late. Where retention may have dropped a row of the
-- message, nothing is said of its retries. Transaction ids up to 2 stand for rows of another cluster.
select m.*
from (
    select
        e.topic_id, e.topic, e.lane, e.queue_id, e.queue_offset, e.tick_id, e.message_id, e.attempt, e.commit_xid,
        not pg_visible_in_snapshot(w.xid, k.snapshot) as unseen,
        coalesce(w.due_at > k.due_until, false) as undue,
        coalesce(
            pg_visible_in_snapshot(w.last_xid, k.seen_before) and w.last_xid > '2'
            and coalesce(w.last_at <= k.due_before, e.place is not null), false
        ) as late
    from entry as e
    join (
        select t.tick_id, t.snapshot, t.due_until, b.snapshot as seen_before, b.due_until as due_before
        from tick as t
        left join tick as b on b.tick_id = t.tick_id - 1
    ) as k on k.tick_id = e.tick_id
    left join retry_time as r
        on r.subscription_id = e.lane and r.message_id = e.message_id and r.attempt = e.attempt
    cross join lateral (
        select
            coalesce(r.xid, e.commit_xid) as xid,
            coalesce(r.last_xid, e.commit_xid) as last_xid,
            coalesce(r.visible_at, e.due_at) as due_at,
            coalesce(r.last_at, e.due_at) as last_at
    ) as w
    cross join horizon as h
    where case
        when e.lane = 0 then e.state = 'committed'
        else r.message_id is not null and e.committed_at > h.delayed_from
    end
) as m
where m.unseen or m.undue or m.late

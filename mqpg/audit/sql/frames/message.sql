-- What the broker's tables know about each stored message.
-- state: committed | undecided (a half without a decision) | rolled_back | recalled | delayed (its
-- time has not come) | final (the payload that a commit brought; its id is never delivered)
-- | relayed (a committed half of a relay topic, delivered as the message relayed_as).
-- committed_at, commit_xid: those of the deciding transaction.
-- expected: the newest tick must have given it an offset. waiting: it is committed, and the
-- appender has not seen it yet. may_be_dropped: retention may have dropped its offset. place: the
-- number by which the appender orders the messages of one tick, null for delayed ones. deliver_id:
-- the message that holds its final payload. unscheduled: it was delayed, and no row in delayed says
-- until when. kind: as the other columns and tables say, because a half message has a handle, and a
-- delayed one a row in delayed.
with batch as (
    -- offset 0: what stands here is computed once. [1:]: so an array is decompressed once for a batch, and not
    -- for each of its messages.
    select
        b.first_id, b.n, b.topic_id, b.kind, b.producer_group_id, b.queue_id, b.check_at, b.born_at,
        b.xid, b.covered, b.may_be_dropped, b.decision_gone,
        b.handle_hashes[1] is not null as half,
        b.handle_hashes[1:] as handle_hashes,
        b.key_hashes[1:] as key_hashes
    from body as b
    offset 0
),

known as (
    select
        b.first_id + i.i as message_id,
        b.topic_id, b.kind, b.producer_group_id, b.queue_id,
        b.handle_hashes[i.i + 1] as handle_hash,
        b.key_hashes[i.i + 1] as key_hash,
        b.check_at, b.born_at, b.xid, b.covered, b.may_be_dropped, b.decision_gone, b.half
    from batch as b
    cross join lateral generate_series(0, b.n - 1) as i (i)
),

-- A message has several rows where an open recall postponed it. The last of them counts.
release as (
    select
        d.message_id,
        max(d.visible_at) as visible_at,
        bool_and(d.due) as due,
        bool_and(d.may_be_dropped) as may_be_dropped
    from delayed as d
    where d.subscription_id = 0
    group by 1
),

-- The last tick that was over when a message was recalled: the one before the newest whose transaction
-- began before the recall's. If it had reached the message's time, the recall came too late.
recall as (
    select r.message_id, r.tick_id - 1 as tick_id
    from (
        select
            u.message_id,
            max(u.tick_id) over (
                order by u.xid, u.message_id nulls last rows between unbounded preceding and current row
            ) as tick_id
        from (
            select d.message_id, null::bigint as tick_id, d.xid
            from decision as d
            where d.stage = 1 and d.op = 'r'
            union all
            select null, t.tick_id, t.xid
            from tick as t
        ) as u
    ) as r
    where r.message_id is not null
),

too_late as (
    select distinct r.message_id
    from recall as r
    join tick as t on t.tick_id = r.tick_id
    join release as w on w.message_id = r.message_id and w.visible_at <= t.due_until
    join delayed as d on d.subscription_id = 0 and d.message_id = r.message_id
    where pg_visible_in_snapshot(d.xid, t.snapshot) and d.visible_at = w.visible_at
),

-- What is known of delays: few messages have one, so that one join is enough for all.
delay as (
    select
        r.message_id is not null as released,
        r.visible_at, r.due, r.may_be_dropped,
        s.op,
        l.message_id is not null as too_late,
        coalesce(r.message_id, s.message_id) as message_id
    from release as r
    full join (select d.message_id, d.op from decision as d where d.stage = 1) as s on s.message_id = r.message_id
    left join too_late as l on l.message_id = r.message_id
),

judged as (
    select
        k.message_id, k.topic_id,
        case when k.half then 'h' when k.kind = 'f' then 'f' when late.late then 'd' else 'n' end as kind,
        k.producer_group_id, k.queue_id, k.handle_hash,
        k.key_hash, k.check_at, k.born_at, k.xid, o.at as decided_at, o.decided_by, late.late,
        late.late and not coalesce(r.released, false) as unscheduled,
        case
            when k.kind = 'f' and not k.half then 'final'
            when k.half and o.op is null and not k.decision_gone then 'undecided'
            when k.half and o.op = 'b' then 'rolled_back'
            when k.half and o.relayed_as is not null then 'relayed'
            when late.late and r.op = 'r' and not r.too_late then 'recalled'
            -- Without its row in delayed it can never come, so it counts as due, and is found lost.
            when late.late and r.op is null and not coalesce(r.due, true) then 'delayed'
            else 'committed'
        end as state,
        case when k.half then o.at else k.born_at end as committed_at,
        case when k.half then o.xid else k.xid end as commit_xid,
        case when late.late then coalesce(r.visible_at, o.visible_at) end as due_at,
        case when k.half then o.relayed_as end as relayed_as,
        case when k.half then o.deliver_id end as deliver_id,
        case when not late.late then case when k.half then o.order_no else k.message_id >> 10 end end as place,
        case when k.half then coalesce(o.covered, k.decision_gone) else k.covered end as covered,
        coalesce(
            case when k.half then coalesce(o.may_be_dropped, k.decision_gone) else k.may_be_dropped end
            and (not late.late or coalesce(r.may_be_dropped, true)), false
        ) as may_be_dropped
    from known as k
    left join decision as o on o.message_id = k.message_id and o.stage = 0
    left join delay as r on r.message_id = k.message_id
    cross join lateral (
        select case
            when k.half then o.visible_at is not null
            else k.kind = 'd' or (k.kind <> 'f' and coalesce(r.released, false))
        end as late
    ) as late
    offset 0
)

select
    j.message_id, j.topic_id, j.queue_id, j.born_at, j.xid, j.committed_at, j.commit_xid, j.may_be_dropped, j.unscheduled,
    j.state = 'committed' and j.covered and not j.may_be_dropped as expected,
    j.state = 'committed' and not j.covered as waiting,
    j.kind, j.state, j.place, j.due_at, j.producer_group_id, j.check_at, j.decided_at, j.decided_by, j.relayed_as,
    j.deliver_id, j.key_hash, j.handle_hash
from judged as j

-- How often a message came back to a subscription, or shall: by a nack (attempts from 2 on) or by a
-- redrive. times: by the rows in `delayed` or, because these may be dropped once their message is in
-- the retry lane, by those of the lane. scheduled: by the rows in `delayed` from the time from which
-- on the subscription's cursors are known. landed: by those of the lane, if that was so already when
-- the message was appended. landed_ever: all of the lane. due: the rows in
-- `delayed` whose time a tick has reached. foreseen: those whose transaction the tick had seen that
-- appended the message. appended_at: when the message came into its queue, before each of these rows.
with appended as (
    select m.message_id, min(m.tick_id) as tick_id
    from stored_message as m
    where m.lane = 0
    group by 1
)

select
    b.subscription_id, b.message_id, b.redriven,
    greatest(count(case when b.scheduled then 1 end), count(case when not b.scheduled then 1 end)) as times,
    count(case when b.scheduled and (s.at is null or b.written_at > s.written_at) then 1 end) as scheduled,
    count(case when not b.scheduled and (s.at is null or k.at > s.at) then 1 end) as landed,
    count(case when not b.scheduled then 1 end) as landed_ever,
    count(case when b.due then 1 end) as due,
    count(case when b.xid > '2' and pg_visible_in_snapshot(b.xid, k.snapshot) then 1 end) as foreseen,
    max(b.written_at) as written_at,
    max(k.at) as appended_at
from (
    select
        d.subscription_id,
        d.message_id,
        d.attempt = 1 as redriven,
        true as scheduled,
        d.due, d.written_at, d.xid
    from delayed as d
    where d.subscription_id > 0
    union all
    select m.lane, m.message_id, m.attempt = 1, false, null, null, null
    from stored_message as m
    where m.lane > 0
) as b
join since as s on s.subscription_id = b.subscription_id
join appended as a on a.message_id = b.message_id
join tick as k on k.tick_id = a.tick_id
group by 1, 2, 3

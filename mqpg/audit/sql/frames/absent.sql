-- The messages that the newest tick must have given an offset, and that are in no queue, and the retries that are in
-- no retry lane. holed: that one has a hole, and may have lost them there.
select
    null as consumer_group, m.topic_id, m.queue_id, m.message_id,
    format('committed by transaction %s, which the newest tick has seen, but in no queue', m.commit_xid) as evidence,
    exists (
        select from hole as h where h.topic_id = m.topic_id and h.lane = 0 and h.queue_id = m.queue_id
    ) as holed
from missed as m
union all
select
    r.consumer_group, d.topic_id, d.queue_id, d.message_id,
    format(
        'attempt %s was due at %s, which the newest tick has passed, but it is in no retry lane',
        d.attempt, d.visible_at::text
    ),
    exists (select from hole as h where h.lane = d.subscription_id)
from delayed as d
join reader as r on r.subscription_id = d.subscription_id
where d.due and d.covered and not d.may_be_dropped
    and (d.written_at is null or r.retries_from is null or d.written_at >= r.retries_from)
    and not exists (
        select from entry as e
        left join tick as k on k.tick_id = e.tick_id
        where e.lane = d.subscription_id and e.message_id = d.message_id and e.attempt = d.attempt
            -- A redriven message may have been delivered by the same attempt before.
            and coalesce(d.visible_at <= k.due_until and pg_visible_in_snapshot(d.xid, k.snapshot), true)
    )

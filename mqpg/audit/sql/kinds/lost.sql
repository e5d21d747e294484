-- lost: committed, and skipped by the appender or by a group, or known only outside the broker.
-- Nacked messages and dead letters are not lost. What a queue with a hole lacks is a gap.
-- needed: messages whose bodies must be there: those that a group has still to read, dead letters, and
-- what waits for its time.
with needed as (
    select p.consumer_group, p.topic, p.queue_id, e.queue_offset, e.message_id
    from place as p
    join odd_entry as e
        on e.topic_id = p.topic_id and e.lane = p.lane and e.queue_id = p.queue_id
        and e.queue_offset >= greatest(p.furthest_offset, p.next_offset)
    where e.state = 'expired'
    union all
    select l.consumer_group, l.topic, null, null, l.message_id
    from judged_letter as l
    where l.present
    union all
    select r.consumer_group, t.topic, d.queue_id, null, d.message_id
    from delayed as d
    join topic as t on t.topic_id = d.topic_id
    left join reader as r on r.subscription_id = d.subscription_id
    where not d.due and coalesce(d.written_at >= r.retries_from, d.subscription_id = 0)
        and not exists (select from decision as o where o.message_id = d.message_id and o.op = 'r')
)

select
    a.consumer_group, t.topic, a.queue_id,
    null::bigint as queue_offset,
    a.message_id, a.evidence
from absent as a
join topic as t on t.topic_id = a.topic_id
where not a.holed
union all
-- Of retries the last one counts. If the group has acknowledged it, there must be an effect or a dead letter.
select
    d.consumer_group, d.topic, d.queue_id, d.queue_offset, d.message_id,
    case
        when d.lane > 0 then format('retry %s was acknowledged, but it was not applied', d.attempt)
        else 'the group''s position is beyond it, but it was not applied'
            || case d.state when 'expired' then ', and retention has dropped its body' else '' end
    end
from delivery as d
where d.behind_position and d.times_applied = 0 and not d.dead
    and case
        when d.lane > 0 then d.state = 'committed' and d.last_retry
        else d.state in ('committed', 'expired') and d.retry_attempt is null and not d.unjudged
    end
union all
-- A send waits no longer than its topic ever kept messages. If no keeper has run for days, its row has an
-- earlier time. What a decision says is a mismatch.
select
    null, t.topic, d.queue_id, null, d.message_id,
    format('its time is %s, later than any call may ask', d.visible_at::text)
from delayed as d
join topic as t on t.topic_id = d.topic_id
left join message as m on m.message_id = d.message_id
where d.subscription_id = 0
    and date_part('epoch', d.visible_at - greatest(d.written_at, m.committed_at)) > t.longest + 3600
    and not exists (select from decision as o where o.message_id = d.message_id and o.stage = 0)
union all
-- A standby that was promoted without the last transactions has neither the message nor a trace.
select
    d.consumer_group, d.topic, null, null, d.message_id,
    format('the message is in %s, and the broker has no trace of it', d.witnesses)
from deleted as d
where not d.in_broker
union all
select n.consumer_group, n.topic, n.queue_id, n.queue_offset, n.message_id, 'its body is gone, and it is still needed'
from needed as n
cross join horizon as h
cross join judged as j
where n.message_id >= j.until_id and n.message_id <@ h.dropped_ids
    and not exists (select from message as m where m.message_id = n.message_id)

-- early: delivered or applied before the transaction that accounts for it, or while that is open.
with reason (state, why) as (
    values ('undecided', 'the half message is undecided'), ('delayed', 'its time has not come')
),

-- Two ticks have each other's messages of a queue. That is a disorder.
exchanged as (
    select distinct e.message_id
    from mistimed as e
    join mistimed as l
        on l.topic_id = e.topic_id and l.lane = e.lane and l.queue_id = e.queue_id and l.tick_id > e.tick_id
    join tick as a on a.tick_id = e.tick_id
    join tick as b on b.tick_id = l.tick_id
    where e.unseen and l.late
        and pg_visible_in_snapshot(l.commit_xid, a.snapshot)
        and pg_visible_in_snapshot(e.commit_xid, b.snapshot)
)

select
    u.consumer_group, u.topic, u.queue_id, u.queue_offset, u.message_id,
    u.place || ', but ' || r.why as evidence
from unaccounted as u
join reason as r on r.state = u.state
union all
select
    null, e.topic, e.queue_id, e.queue_offset, e.message_id,
    format(
        '%sappended by tick %s, %s', case when e.lane > 0 then format('retry %s was ', e.attempt) else '' end, e.tick_id,
        case
            when e.unseen then format('which had not seen transaction %s', e.commit_xid)
            else 'before its time had come'
        end
    )
from mistimed as e
where (e.unseen or e.undue)
    and not exists (select from exchanged as x where x.message_id = e.message_id)
union all
-- The consumers' snapshots are older than the broker's, so the broker's queues must contain
-- everything that a journal contains.
select
    e.consumer_group, e.topic, e.queue_id, e.queue_offset, e.message_id,
    'applied, but no tick of the appender has seen its commit'
from odd_effect as e
where e.state = 'committed' and e.waiting
    and not exists (select from queued as q where q.message_id = e.message_id)
union all
select
    l.consumer_group, l.topic, l.queue_id, l.queue_offset, l.message_id,
    case
        when l.ledger is not null
            then format('committed %s s before its row in the ledger %s', round(l.seconds, 3), l.ledger)
        when l.attempt is not null
            then format('retry %s was applied %s s before its time', l.attempt, round(l.seconds, 3))
        else format('applied %s s before its commit', round(l.seconds, 3))
    end
from lead as l
where l.seconds > l.tolerance and not l.turned
union all
select
    null, m.topic, null, null, m.message_id,
    format('committed by the %s, but the ledger %s has no row', m.decided_by, m.ledger)
from odd_match as m
cross join run as u
where m.audited and m.state = 'committed' and m.entry is null and not m.seen and not m.expected
    and m.decided_at >= u.purged_before and not coalesce(m.decided_by = 'admin', false)

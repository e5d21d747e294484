-- What a clock shows before that which came first: effects before their commit or the time of their
-- retry, and decisions before their row in the ledger. seconds: by how much. tolerance: by how much
-- the clocks of the two databases may differ.
-- turned: other records prove the order, and with it that the clock went back. So did the tick or the
-- delivery that came between the commit and the effect, if it has a time that is not after the
-- effect's, or if the clock went back while the effect's offset was being delivered. A decision that
-- has a time before its own half message's, or a row that was done before it was there, says the same.
with effect_lead as (
    select
        e.consumer_group, e.topic, e.topic_id, e.owner_id, e.queue_id, e.queue_offset, e.message_id,
        e.applied_at, g.tolerance,
        null::int as attempt,
        extract(epoch from greatest(e.committed_at, e.due_at) - e.applied_at) as seconds
    from odd_effect as e
    join journal_group as g on g.consumer_group = e.consumer_group
    where e.state = 'committed' and greatest(e.committed_at, e.due_at) > e.applied_at
    union all
    select
        e.consumer_group, e.topic, e.topic_id, e.owner_id, e.queue_id, e.queue_offset, e.message_id,
        e.applied_at, g.tolerance, d.attempt,
        extract(epoch from r.visible_at - e.applied_at)
    from effect as e
    join delivery as d using (subscription_id, queue_id, queue_offset, message_id)
    join retry_time as r
        on r.subscription_id = d.subscription_id and r.message_id = d.message_id and r.attempt = d.attempt
    join journal_group as g on g.consumer_group = e.consumer_group
    where d.lane > 0 and d.state = 'committed' and r.visible_at > e.applied_at
        and not extract(epoch from e.committed_at - e.applied_at) > g.tolerance
),

delivered as (
    select t.subscription_id, t.queue_id, o.o as queue_offset, min(t.at) as at
    from transition as t
    cross join lateral generate_series(t.previous_claimed, t.claimed - 1) as o (o)
    where exists (
        select from effect_lead as e
        where e.owner_id = t.subscription_id and e.queue_id = t.queue_id and e.seconds > e.tolerance
    )
    group by 1, 2, 3
),

appended as (
    select n.topic_id, n.lane, n.queue_id, n.queue_offset, n.message_id, min(k.at) as at
    from entry as n
    join tick as k on k.tick_id = n.tick_id
    where exists (select from effect_lead as e where e.message_id = n.message_id)
    group by 1, 2, 3, 4, 5
)

select
    e.consumer_group, e.topic, e.queue_id, e.queue_offset, e.message_id, e.attempt, e.tolerance, e.seconds,
    null::text as ledger,
    coalesce(w.at <= e.applied_at, false)
    or coalesce(a.at <= e.applied_at, false)
    or exists (
        select from clock_turn as c
        where c.subscription_id = e.owner_id
            and c.queue_id = e.queue_id
            and e.queue_offset >= c.low_offset
            and e.queue_offset < c.high_offset
    ) as turned
from effect_lead as e
left join delivered as w
    on w.subscription_id = e.owner_id and w.queue_id = e.queue_id and w.queue_offset = e.queue_offset
left join appended as a
    on a.topic_id = e.topic_id
    and a.lane = case when e.queue_id < 0 then e.owner_id else 0 end
    and a.queue_id = e.queue_id
    and a.queue_offset = e.queue_offset
    and a.message_id = e.message_id
union all
select
    null, m.topic, null, null, m.message_id, null, s.tolerance,
    extract(epoch from m.created_at - m.decided_at),
    m.ledger,
    coalesce(m.decided_at < m.born_at or m.done_at < m.created_at, false)
from odd_match as m
join ledger_source as s on s.ledger = m.ledger
where m.audited and m.state = 'committed' and m.entry = 'local' and m.created_at > m.decided_at

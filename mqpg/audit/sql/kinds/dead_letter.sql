-- dead_letter: a dead letter that never failed, or one that the group also applied.
-- Where the queues no longer hold the message, its offset is unknown.
select
    l.consumer_group, l.topic,
    null::int as queue_id,
    null::bigint as queue_offset,
    l.message_id,
    format('a dead letter of %s attempts, but no delivery of it failed', l.attempts) as evidence
from judged_letter as l
where l.judged
    and exists (select from entry as e where e.message_id = l.message_id)
    and not exists (
        select from failure as f where f.subscription_id = l.subscription_id and f.message_id = l.message_id
    )
union all
-- Redriven and dead again it has another time.
select r.consumer_group, r.topic, null, null, l.message_id, format('%s dead letters of %s', count(*), l.died_at::text)
from letter as l
join reader as r on r.subscription_id = l.subscription_id
group by r.consumer_group, r.topic, l.subscription_id, l.message_id, l.died_at
having count(*) > 1
union all
-- A consumer that was killed after its effect never acknowledged it. Its lease ends, and with it
-- the last attempt, so such a dead letter contradicts nothing. A nack says that nothing was done.
select
    e.consumer_group, e.topic,
    min(e.queue_id),
    min(e.queue_offset),
    e.message_id, 'a dead letter, but the group applied the message'
from judged_letter as l
join effect as e on e.owner_id = l.subscription_id and e.message_id = l.message_id
where l.present and l.mode <> 'broadcast'
    and exists (
        select from failure as f
        where f.subscription_id = l.subscription_id and f.message_id = l.message_id and f.action = 'nack'
    )
    and not exists (
        select from replay as r
        where r.subscription_id = l.subscription_id and r.message_id = l.message_id
    )
group by l.subscription_id, e.consumer_group, e.topic, e.message_id

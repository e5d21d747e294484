-- One row for each group with a journal and each offset since its start that it took with a journal.
-- Where the start is unknown, it is the lowest offset that the cursor or the journal is known to have
-- been at.
-- times_applied: how often the journal has the message. behind_position: the group's position is
-- beyond the offset. dead: the group does not have to apply it. unjudged: a filter may have left it
-- out, and its body is dropped, so nobody can say any more whether it did.
-- last_retry: it is the message's last delivery in the retry lane, and none was scheduled behind it.
with again as (
    select r.message_id from reapplied as r
),

journal as (
    select e.owner_id, e.message_id, 1 as times_applied, e.applied_at
    from effect as e
    where e.owner_id is not null and not exists (select from again as r where r.message_id = e.message_id)
    union all
    select e.owner_id, e.message_id, count(*), min(e.applied_at)
    from effect as e
    where e.owner_id is not null and exists (select from again as r where r.message_id = e.message_id)
    group by 1, 2
),

first_applied as (
    select e.owner_id, e.queue_id, min(e.queue_offset) as queue_offset
    from effect as e
    join place as p on p.subscription_id = e.owner_id and p.queue_id = e.queue_id
    where p.start_offset is null and e.queue_id >= 0
    group by 1, 2
),

started as (
    select p.*, coalesce(p.start_offset, least(f.queue_offset, p.known_offset), p.next_offset) as first_offset
    from place as p
    left join first_applied as f on f.owner_id = p.subscription_id and f.queue_id = p.queue_id
    where p.journal
)

select
    e.topic_id, p.subscription_id, e.lane, e.queue_id, e.queue_offset, e.message_id, e.tick_id, e.attempt,
    coalesce(e.lane > 0 and e.queue_offset = r.last_offset, false) as last_retry,
    coalesce(j.times_applied, 0) as times_applied,
    x.message_id is not null as dead,
    e.queue_offset < p.next_offset as behind_position,
    p.filtered and e.state = 'expired'
    and e.queue_offset < p.next_offset and j.message_id is null and r.attempt is null and x.message_id is null as unjudged,
    e.committed_at, j.applied_at, e.due_at,
    r.attempt as retry_attempt,
    p.consumer_group, e.topic, e.state
from entry as e
join started as p
    on p.topic_id = e.topic_id and p.lane = e.lane and p.queue_id = e.queue_id and e.queue_offset >= p.first_offset
left join journal_span as s
    on s.subscription_id = p.subscription_id and s.queue_id = p.queue_id and e.queue_offset >= s.from_offset
    and (s.to_offset is null or e.queue_offset < s.to_offset)
left join journal as j on j.owner_id = p.subscription_id and j.message_id = e.message_id
left join retry as r on r.subscription_id = p.subscription_id and r.message_id = e.message_id
left join excuse as x on x.subscription_id = p.subscription_id and x.message_id = e.message_id
where not p.noted or s.subscription_id is not null

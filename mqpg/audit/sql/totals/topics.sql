-- What was stored and decided in each topic, and what its queues contain. The sides are counted in
-- different tables. queued counts offsets whose message is not expired.
with stored as (
    select
        m.topic_id,
        count(*) filter (where m.kind <> 'h') as sent,
        count(*) filter (where m.kind = 'h') as prepared,
        count(*) filter (
            where m.kind = 'h' and m.decided_at is not null and m.state <> 'rolled_back'
        ) as decided_commit,
        count(*) filter (where m.state = 'rolled_back') as rolled_back,
        count(*) filter (where m.state = 'undecided') as undecided,
        count(*) filter (where m.state = 'recalled') as recalled,
        count(*) filter (where m.state = 'delayed') as delayed,
        count(*) filter (where m.state = 'committed') as committed
    from message as m
    where m.kind <> 'f'
    group by 1
),

outside as (
    select
        m.topic_id,
        count(*) filter (where m.waiting) as waiting,
        count(*) filter (where m.state = 'committed' and m.may_be_dropped) as dropped
    from message as m
    where m.kind <> 'f' and (m.waiting or (m.state = 'committed' and m.may_be_dropped))
        and not exists (select from queued as q where q.message_id = m.message_id)
    group by 1
),

offsets as (
    select
        e.topic_id,
        count(*) filter (where e.state <> 'expired') as queued,
        count(*) filter (where e.state = 'expired') as expired
    from entry as e
    where e.lane = 0
    group by 1
)

select
    t.topic,
    coalesce(s.sent, 0) as sent,
    coalesce(s.prepared, 0) as prepared,
    coalesce(s.decided_commit, 0) as decided_commit,
    coalesce(s.rolled_back, 0) as rolled_back,
    coalesce(s.undecided, 0) as undecided,
    coalesce(s.recalled, 0) as recalled,
    coalesce(s.delayed, 0) as delayed,
    coalesce(s.committed, 0) as committed,
    coalesce(u.waiting, 0) as waiting,
    coalesce(u.dropped, 0) as dropped,
    coalesce(o.queued, 0) as queued,
    coalesce(o.expired, 0) as expired
from topic as t
left join stored as s on s.topic_id = t.topic_id
left join outside as u on u.topic_id = t.topic_id
left join offsets as o on o.topic_id = t.topic_id

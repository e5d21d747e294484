-- Why what was judged must be judged again: rows that are read now and concern judged ones. A row
-- that names a judged message needs that message, a group that went back must apply it again, and
-- what was applied or sent at the same time as something judged must be compared with it.
with known as (
    select j.last_tick, j.until_id from judged as j
),

named (what, message_id) as (
    select 'a queue', e.message_id from entry as e
    union all
    select 'the body of a queue', e.body_id from entry as e
    union all
    select 'the body of a decision', d.deliver_id from decision as d
    union all
    select 'a decision', d.relayed_as from decision as d
    union all
    select 'the body of a delayed message', d.deliver_id from delayed as d
    union all
    select 'the body of a dead letter', l.deliver_id from letter as l
    union all
    select 'an outbox', o.message_id from outbox as o
    union all
    select 'an inbox', f.message_id from deferred as f
),

seat as (
    select
        p.subscription_id, p.topic_id, p.lane, p.queue_id,
        least(p.next_offset, c.committed) as committed,
        t.tail
    from place as p
    join cursor_now as c on c.subscription_id = p.subscription_id and c.queue_id = p.queue_id
    join judged_tail as t on t.topic_id = p.topic_id and t.lane = p.lane and t.queue_id = p.queue_id
)

select q.why
from (
    select 'a row of a queue begins below the end of the judged part' as why
    from queue_row as q
    join judged_tail as t
        on t.topic_id = q.topic_id and t.lane = q.subscription_id and t.queue_id = q.queue_id
    where q.base_offset < t.tail
    union all
    select format('%s names the judged message %s', n.what, n.message_id)
    from named as n
    cross join known as k
    where n.message_id < k.until_id
        and not exists (select from open_message as o where o.message_id = n.message_id)
    union all
    select format('message %s is in no queue, and not among those in the judged part', m.message_id)
    from message as m
    where m.state = 'committed' and m.may_be_dropped
        and not exists (select from queued as q where q.message_id = m.message_id)
        and not exists (select from judged_offset as o where o.message_id = m.message_id)
    union all
    select format('message %s is in the judged part of a queue too', e.message_id)
    from entry as e
    join judged_offset as o on o.message_id = e.message_id
    where e.lane = 0
    union all
    select format('subscription %s is at offset %s, which is judged', s.subscription_id, s.committed)
    from seat as s
    where s.committed < s.tail
    union all
    select format('subscription %s applied message %s beside judged ones', e.owner_id, e.message_id)
    from effect as e
    join reader as r on r.subscription_id = e.owner_id
    join judged_start as b on b.subscription_id = e.owner_id and b.queue_id = e.queue_id
    join judged_tail as t on t.topic_id = e.topic_id and t.queue_id = e.queue_id and t.lane = 0
    where r.mode in ('exclusive', 'pinned')
        and case
            when e.queue_offset < t.tail then e.applied_at > b.applied_until
            else e.applied_at < b.applied_until
        end
    union all
    select format('message %s has the dedup id of message %s', p.message_id, p.other_id)
    from (
        select a.message_id, b.message_id as other_id
        from dedup as a
        join dedup as b on b.topic_id = a.topic_id and b.dedup_hash = a.dedup_hash and b.message_id > a.message_id
        cross join known as k
        where a.message_id < k.until_id
        except
        select m.message_id, m.other_id from judged_pair as m
    ) as p
    union all
    select format('the offsets of group %s are not those of this broker', o.consumer_group)
    from stored_offset as o
    cross join run as u
    group by o.consumer_group
    having not bool_or(o.broker = u.broker_id) or bool_or(o.broker = u.broker_id and o.incarnation > u.incarnation)
) as q
cross join known as k
where k.until_id > 0
limit 1

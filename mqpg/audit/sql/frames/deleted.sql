-- Messages that another table names although the log has no row for them, from before the
-- newest tick. A run that repeats a message is a duplicate, whatever else it names.
with repeated_run as (
    select distinct e.topic_id, e.lane, e.queue_id, e.tick_id, e.message_id >> 10 as batch_id
    from entry as e
    join repeated as m on m.message_id = e.message_id
    where e.lane = 0
)

select
    w.message_id,
    string_agg(distinct w.witness, ', ' order by w.witness) as witnesses,
    bool_or(w.witness not in ('a journal', 'a ledger', 'an outbox')) as in_broker,
    max(w.consumer_group) as consumer_group,
    max(w.topic) as topic
from (
    select e.message_id, 'a queue' as witness, null as consumer_group, e.topic
    from unaccounted as e
    left join repeated_run as r
        on r.topic_id = e.topic_id
        and r.lane = e.lane
        and r.queue_id = e.queue_id
        and r.tick_id = e.tick_id
        and r.batch_id = e.message_id >> 10
    where e.state = 'missing' and e.place = 'in a queue' and r.batch_id is null
    union all
    select d.message_id, 'the op log', null, null
    from decision as d
    union all
    select d.deliver_id, 'the op log', null, null
    from decision as d
    where d.deliver_id is not null
    union all
    select d.message_id, 'the delayed messages', null, null
    from delayed as d
    union all
    select c.message_id, 'the check-backs', null, null
    from check_back as c
    cross join run as u
    where u.all_topics
    union all
    -- A send writes its id into two slots. One that loses against another send, at the boundary of
    -- a slot, has its id in one slot only, and no message.
    select d.message_id, 'the dedup ids', null, null
    from dedup as d
    group by d.topic_id, d.dedup_hash, d.message_id
    having count(distinct d.slot) > 1
    union all
    -- Journals and ledgers may name messages of topics that are not audited.
    select e.message_id, 'a journal', e.consumer_group, e.topic
    from unaccounted as e
    cross join run as u
    where e.state = 'missing' and e.place = 'applied' and u.all_topics
    union all
    select m.message_id, 'a ledger', null, m.topic
    from odd_match as m
    cross join run as u
    where not m.audited and m.entry = 'local' and u.all_topics
    union all
    select o.message_id, 'an outbox', null, o.topic
    from outbox as o
    cross join run as u
    where o.state in ('commit', 'rollback') and u.all_topics
) as w
cross join horizon as h
where w.message_id >> 10 <= h.newest_id
    and not w.message_id <@ h.dropped_ids
    and not exists (select from message as m where m.message_id = w.message_id)
group by w.message_id

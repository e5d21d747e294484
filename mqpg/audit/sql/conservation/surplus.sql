-- The offsets of subscriptions with a journal that were applied more often than somebody had them (handed): each
-- time that a claim on one ended, and once more while one is open. For a group with offsets of its own,
-- which may read without a claim what the broker's cursor has passed, each time that it was passed. If it may have
-- subscribed before, its start passed what was there.
with open as (
    select o.subscription_id, o.queue_id, c.picked, c.settled,
        greatest(c.from_offset, b.low) as from_offset,
        least(c.to_offset, b.high) as to_offset
    from origin as o
    join keeper as k on k.subscription_id = o.subscription_id
    join claim as c
        on c.subscription_id = o.subscription_id
        and c.queue_id = o.queue_id
        and c.version = o.last_version
        and c.slot = o.last_slot
    join bound as b on b.topic_id = o.topic_id and b.lane = o.lane and b.queue_id = o.queue_id
)

select h.subscription_id, h.queue_id, h.queue_offset, sum(h.handed) as handed
from (
    select e.subscription_id, e.queue_id, e.queue_offset, 1 as handed, 0 as applied
    from ending as e
    join keeper as k on k.subscription_id = e.subscription_id
    where e.ending <> 'again' and (e.held and e.ending <> 'nacked' or k.own)
    union all
    select n.subscription_id, n.queue_id, o.o, 1, 0
    from open as n
    cross join lateral unnest(n.picked) as o (o)
    union all
    select n.subscription_id, n.queue_id, o.o, 1, 0
    from open as n
    cross join lateral generate_series(n.from_offset, n.to_offset - 1) as o (o)
    where n.picked is null and not coalesce(o.o = any(n.settled), false)
    union all
    select distinct n.subscription_id, n.queue_id, n.queue_offset, 1 as handed, 0 as applied
    from answer as n
    join keeper as k on k.subscription_id = n.subscription_id and k.own
    join origin as o on o.subscription_id = n.subscription_id and o.queue_id = n.queue_id
    cross join horizon as h
    where o.whole and n.queue_offset < o.claimed and h.had_others
    union all
    select a.subscription_id, a.queue_id, a.queue_offset, 0, 1
    from answer as a
) as h
group by 1, 2, 3
having sum(h.applied) > sum(h.handed)

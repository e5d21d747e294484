-- What was pending before a version and is not pending in the same piece after it, or the other way
-- round. Pending are the offsets in claims, and those from `claimed` on. before: it was pending
-- before, and is no longer. held: it was in a claim, so somebody had got it.
with pending as (
    select
        s.subscription_id, s.queue_id, s.version, true as before, true as held,
        c.from_offset, c.to_offset, c.settled, c.picked
    from step as s
    join claim as c
        on c.subscription_id = s.subscription_id
        and c.queue_id = s.queue_id
        and c.version = s.version_before
        and c.slot = s.slot_before
    where s.follows
    union all
    select s.subscription_id, s.queue_id, s.version, false, true, c.from_offset, c.to_offset, c.settled, c.picked
    from step as s
    join claim as c using (subscription_id, queue_id, version, slot)
    where s.follows
    union all
    select s.subscription_id, s.queue_id, s.version, true, false, s.claimed_before, s.claimed, null, null
    from step as s
    where s.follows and s.claimed > s.claimed_before
    union all
    select s.subscription_id, s.queue_id, s.version, false, false, s.claimed, s.claimed_before, null, null
    from step as s
    where s.follows and s.claimed < s.claimed_before
)

select
    p.subscription_id, p.queue_id, p.version, p.from_offset, p.to_offset, p.settled, p.picked,
    bool_or(p.before) as before,
    bool_or(p.held) as held
from pending as p
join origin as o on o.subscription_id = p.subscription_id and o.queue_id = p.queue_id and o.version < p.version
group by 1, 2, 3, 4, 5, 6, 7
having bool_or(p.before) <> bool_or(not p.before)

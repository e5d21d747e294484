-- The stretches of a cursor's history, first and last version, in which positions only grow: a seek begins another.
-- Locks: none. Cost: one index lookup a slot, and one row a seek (or purge, or loss by policy).
create function mqpg._eras(subscription_id int, queue_id int) returns table (from_version bigint, to_version bigint)
language sql stable as $$
    with bound as (
        select min(c.version) as version from mqpg.cursor c
        where c.subscription_id = _eras.subscription_id and c.queue_id = _eras.queue_id
        union
        select c.version from mqpg.cursor c
        where c.subscription_id = _eras.subscription_id and c.queue_id = _eras.queue_id and c.action = 'q'
    )
    select b.version, coalesce(lead(b.version) over (order by b.version) - 1, (
        select max(c.version) from mqpg.cursor c
        where c.subscription_id = _eras.subscription_id and c.queue_id = _eras.queue_id))
    from bound b
$$;
comment on function mqpg._eras(int, int) is 'Internal: stretches of a cursor''s history between seeks';

-- The eras of a cursor's history, each with its first and last version. Positions only grow within
-- an era; a seek begins the next one.
-- Locks: none. Cost: one index lookup per slot, and one row for each seek, purge or loss by policy.
create function mqpg._cursor_eras(subscription_id int, queue_id int) returns table (from_version bigint,
    to_version bigint)
language sql stable as $$
    with bound as (
        select min(c.version) as version from mqpg.cursor c
        where c.subscription_id = _cursor_eras.subscription_id and c.queue_id = _cursor_eras.queue_id
        union
        select c.version from mqpg.cursor c
        where c.subscription_id = _cursor_eras.subscription_id and c.queue_id = _cursor_eras.queue_id
            and c.action = mqpg._action('moved')
    )
    select b.version, coalesce(lead(b.version) over (order by b.version) - 1, (
        select max(c.version) from mqpg.cursor c
        where c.subscription_id = _cursor_eras.subscription_id and c.queue_id = _cursor_eras.queue_id))
    from bound b
$$;

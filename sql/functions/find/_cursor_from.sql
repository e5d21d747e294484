-- The first version of a cursor that is left whose `claimed` (or, with done, `committed`) is above an offset; null
-- if none. Both only ever grow with the version, so it is found by halving.
-- Locks: none. Cost: log2(versions) index lookups.
create function mqpg._cursor_from(subscription_id int, queue_id int, queue_offset bigint, done boolean) returns bigint
language plpgsql stable as $$
declare
    v_low bigint;
    v_high bigint;
    v_middle bigint;
    v_at bigint;
begin
    select min(c.version), max(c.version) + 1 into v_low, v_high from mqpg.cursor c
    where c.subscription_id = _cursor_from.subscription_id and c.queue_id = _cursor_from.queue_id;
    while v_low < v_high loop
        v_middle := (v_low + v_high) / 2;
        select case when _cursor_from.done then c.committed else c.claimed end into v_at from mqpg.cursor c
        where c.subscription_id = _cursor_from.subscription_id and c.queue_id = _cursor_from.queue_id
            and c.version >= v_middle
        order by c.version limit 1;
        if v_at > _cursor_from.queue_offset then
            v_high := v_middle;
        else
            v_low := v_middle + 1;
        end if;
    end loop;
    return (
        select min(c.version) from mqpg.cursor c
        where c.subscription_id = _cursor_from.subscription_id and c.queue_id = _cursor_from.queue_id
            and c.version >= v_low);
end
$$;
comment on function mqpg._cursor_from(int, int, bigint, boolean) is 'Internal: cursor version that passed an offset';

-- The first version of a cursor within an era whose `claimed` (or, with done, `committed`) is above
-- an offset; null if there is none. Within an era both only grow with the version, so a binary
-- search finds it.
-- Locks: none. Cost: log2(versions) index lookups.
create function mqpg._cursor_from(
    subscription_id int, queue_id int, queue_offset bigint, done boolean, from_version bigint, to_version bigint
) returns bigint
language plpgsql stable as $$
declare
    v_low bigint := _cursor_from.from_version;
    v_high bigint := _cursor_from.to_version + 1;
    v_middle bigint;
    v_row record;
begin
    while v_low < v_high loop
        v_middle := (v_low + v_high) / 2;
        select c.version, case when _cursor_from.done then c.committed else c.claimed end as at into v_row
        from mqpg.cursor c
        where c.subscription_id = _cursor_from.subscription_id and c.queue_id = _cursor_from.queue_id
            and c.version >= v_middle
        order by c.version limit 1;
        if v_row.version is null or v_row.version > _cursor_from.to_version or v_row.at > _cursor_from.queue_offset then
            v_high := v_middle;
        else
            v_low := v_row.version + 1;
        end if;
    end loop;
    return (
        select c.version from mqpg.cursor c
        where c.subscription_id = _cursor_from.subscription_id and c.queue_id = _cursor_from.queue_id
            and c.version between v_low and _cursor_from.to_version
        order by c.version limit 1);
end
$$;

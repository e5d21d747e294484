-- The newest version of a cursor, null if there is none. It is volatile, because it must see what
-- the caller waited for. A transaction that read the table before keep() attached a new slot knows
-- only the older partitions, so it would take the closing row for the newest version. Taking a lock
-- that the transaction does not have yet makes it read the list of partitions again. If it had even
-- that lock, it must start over.
-- It is plpgsql, not sql, so that its plan is kept.
-- Locks: none; ROW SHARE on cursor in that one case.
-- Cost: one index lookup for each slot.
-- Errors: 40001.
create function mqpg._cursor(subscription_id int, queue_id int) returns mqpg.cursor
language plpgsql volatile as $$
declare
    v_cursor mqpg.cursor;
begin
    select c.* into v_cursor from mqpg.cursor c
    where c.subscription_id = _cursor.subscription_id and c.queue_id = _cursor.queue_id
    order by c.version desc limit 1;
    if v_cursor.action = mqpg._action('closed') then
        lock table only mqpg.cursor in row share mode;
        select c.* into v_cursor from mqpg.cursor c
        where c.subscription_id = _cursor.subscription_id and c.queue_id = _cursor.queue_id
        order by c.version desc limit 1;
        if v_cursor.action = mqpg._action('closed') then
            raise exception using errcode = '40001',
                message = 'the position of the queue was moved to newer storage: try the transaction again';
        end if;
    end if;
    return v_cursor;
end
$$;

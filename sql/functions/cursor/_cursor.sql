-- The newest version of a cursor, null where there is none. Volatile: it must see what a lock waited for.
-- A transaction that looked at the table before keep() attached a new slot goes on with the partitions it
-- knows, and would take the closing row for the newest; a lock of a kind that it does not hold yet makes it
-- look again, and if it held even that it must start over.
-- Locks: none; ROW SHARE on cursor in that one case. Cost: one index lookup a slot. (plpgsql, not sql: its plan
-- is kept.) Errors: 40001.
create function mqpg._cursor(subscription_id int, queue_id int) returns mqpg.cursor
language plpgsql volatile as $$
declare
    v_cursor mqpg.cursor;
begin
    select c.* into v_cursor from mqpg.cursor c
    where c.subscription_id = _cursor.subscription_id and c.queue_id = _cursor.queue_id
    order by c.version desc limit 1;
    if v_cursor.action = 'c' then
        lock table only mqpg.cursor in row share mode;
        select c.* into v_cursor from mqpg.cursor c
        where c.subscription_id = _cursor.subscription_id and c.queue_id = _cursor.queue_id
        order by c.version desc limit 1;
        if v_cursor.action = 'c' then
            raise exception using errcode = '40001',
                message = 'the queue''s cursor was moved to a new slot: try the transaction again';
        end if;
    end if;
    return v_cursor;
end
$$;
comment on function mqpg._cursor(int, int) is 'Internal: newest version of a cursor';

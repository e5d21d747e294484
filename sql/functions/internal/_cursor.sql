-- The newest version of a cursor, null where there is none. Volatile: it must see what a lock waited for.
-- Locks: none. Cost: one index lookup a slot. (plpgsql, not sql: its plan is kept.)
create function mqpg._cursor(subscription_id int, queue_id int) returns mqpg.cursor
language plpgsql volatile as $$
declare
    v_cursor mqpg.cursor;
begin
    select c.* into v_cursor from mqpg.cursor c
    where c.subscription_id = _cursor.subscription_id and c.queue_id = _cursor.queue_id
    order by c.version desc limit 1;
    return v_cursor;
end
$$;
comment on function mqpg._cursor(int, int) is 'Internal: newest version of a cursor';

-- The slot that new cursors are written to, which is the newest one that keep() made. It stays open
-- until the end of the transaction: keep() closes it only when it sees and has copied the cursors
-- that this transaction begins.
-- A transaction that read the table before knows only the older partitions. As in _cursor(), a lock
-- that it does not have yet makes it read their list again. A REPEATABLE READ caller may not see the
-- newest slot, and the one that it sees may be closed, so it must start over.
-- Locks: 1836150835 with 2, shared, waited for up to the setting lock_timeout; ROW SHARE on cursor.
-- Cost: one index lookup.
-- Errors: 40001, 55P03.
create function mqpg._cursor_slot() returns int
language plpgsql volatile as $$
declare
    v_slot int;
    v_timeout text;
begin
    if not pg_try_advisory_xact_lock_shared(1836150835, 2) then
        v_timeout := mqpg._apply_lock_timeout();
        perform pg_advisory_xact_lock_shared(1836150835, 2);
        perform set_config('lock_timeout', v_timeout, true);
    end if;
    lock table only mqpg.cursor in row share mode;
    select max(s.segment_no)::int into v_slot
    from mqpg.segment s where s.family = 'cursor' and s.closed_at is null;
    if current_setting('transaction_isolation') <> 'read committed'
        and to_regclass('mqpg.cursor_' || v_slot + 1) is not null then
        raise exception using errcode = '40001',
            message = 'the storage of positions was renewed concurrently: try the transaction again';
    end if;
    return v_slot;
end
$$;
comment on function mqpg._cursor_slot() is 'Internal: newest cursor slot, kept open';

-- The slot that new cursors are written to, which is the newest one that keep() made. It stays open
-- until the end of the transaction: keep() closes it only when it sees and has copied the cursors
-- that this transaction begins.
-- A transaction that wrote to the table before may not know the newest partition yet. It uses the
-- newest one that it knows. A REPEATABLE READ caller may not see that a slot is closed, so it must
-- start over where there is a newer one.
-- Locks: 1836150835 with 2, shared, waited for up to the setting lock_timeout; ROW EXCLUSIVE on
-- cursor.
-- Cost: two index lookups.
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
    lock table only mqpg.cursor in row exclusive mode;      -- reads the list of partitions again
    select max(s.segment_no)::int into v_slot from mqpg.segment s where s.family = 'cursor' and s.closed_at is null;
    while v_slot > 0 and to_regclass('mqpg.' || mqpg._partition_name('cursor', v_slot)) is null loop
        v_slot := v_slot - 1;
    end loop;
    if not exists (
        select from mqpg.segment s where s.family = 'cursor' and s.segment_no = v_slot and s.closed_at is null
    ) or (current_setting('transaction_isolation') <> 'read committed'
        and to_regclass('mqpg.' || mqpg._partition_name('cursor', v_slot + 1)) is not null) then
        raise exception using errcode = '40001',
            message = 'the storage of positions was renewed concurrently: try the transaction again';
    end if;
    return v_slot;
end
$$;

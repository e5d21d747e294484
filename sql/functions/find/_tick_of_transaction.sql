-- The first tick that covers a transaction's rows: its snapshot sees the xid and, for delayed
-- messages, its due time is reached. Both change only from no to yes, so a binary search finds it.
-- Null: not appended yet. For rows older than every remaining tick it is the oldest remaining one.
-- Locks: none. Cost: one index lookup; twice log2(ticks) more for a transaction that was open
-- during a tick, or a delay.
create function mqpg._tick_of_transaction(xid xid8, visible_at timestamptz default '-infinity') returns bigint
language plpgsql stable as $$
declare
    v_below bigint;     -- this tick does not cover it
    v_tick bigint;      -- this one does
    v_probe bigint;
    v_covers boolean;
begin
    select t.tick_id, pg_visible_in_snapshot(_tick_of_transaction.xid, t.snapshot)
        and t.due_until >= _tick_of_transaction.visible_at
    into v_below, v_covers
    from mqpg.tick t where t.snapshot_xmax > _tick_of_transaction.xid
    order by t.snapshot_xmax, t.tick_id limit 1;
    if v_covers then
        return v_below;
    end if;
    select t.tick_id, pg_visible_in_snapshot(_tick_of_transaction.xid, t.snapshot)
        and t.due_until >= _tick_of_transaction.visible_at
    into v_tick, v_covers
    from mqpg.tick t order by t.tick_id desc limit 1;
    if v_below is null or not v_covers then
        return null;
    end if;
    loop
        v_probe := coalesce(
            (select t.tick_id from mqpg.tick t
             where t.tick_id > v_below and t.tick_id <= v_below + (v_tick - v_below) / 2
             order by t.tick_id desc limit 1),
            (select t.tick_id from mqpg.tick t
             where t.tick_id > v_below + (v_tick - v_below) / 2 and t.tick_id < v_tick
             order by t.tick_id limit 1));
        if v_probe is null then
            return v_tick;
        end if;
        select pg_visible_in_snapshot(_tick_of_transaction.xid, t.snapshot)
            and t.due_until >= _tick_of_transaction.visible_at
        into v_covers from mqpg.tick t where t.tick_id = v_probe;
        if v_covers then
            v_tick := v_probe;
        else
            v_below := v_probe;
        end if;
    end loop;
end
$$;

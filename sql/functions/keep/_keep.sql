-- keep(), without the drops if `drops` is false: it then only releases tables, and the keeper
-- process detaches and drops them.
-- jit off, because servers with LLVM compiled statements over all partitions for seconds.
-- Locks, cost, errors: those of keep().
create function mqpg._keep(drops boolean)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' set jit = off as $$
declare
    v_checked boolean := mqpg._require_privilege('worker');
    v_last_value bigint;
    v_changed boolean := false;
begin
    perform mqpg._require_own_transaction('keep');
    perform mqpg._require_rows();
    if not pg_try_advisory_xact_lock(1836150835, 0) then
        return;
    end if;
    perform mqpg._open_queues();
    select b.last_value into v_last_value from mqpg.batch_id b;
    return query select r.* from mqpg._roll_log(v_last_value) r;
    for action, family, segment_no, detail in
        select 'made', m.family, m.segment_no, format('%s to %s', m.lower_bound, m.upper_bound)
        from mqpg._make_segments() m
    loop
        v_changed := true;
        return next;
    end loop;
    for action, family, segment_no, detail in select r.* from mqpg._roll_ticks() r loop
        v_changed := true;
        return next;
    end loop;
    for action, family, segment_no, detail in select r.* from mqpg._roll_cursors() r loop
        v_changed := v_changed or action <> 'blocked';
        return next;
    end loop;
    return query select c.* from mqpg._close_segments() c;
    perform mqpg._note_tails();
    perform mqpg._note_decided();
    if not v_changed then
        for action, family, segment_no, detail in select d.* from mqpg._drop_one_table(_keep.drops) d loop
            v_changed := v_changed or action not in ('pinned', 'blocked');
            return next;
        end loop;
    end if;
    if not v_changed then
        return query select f.* from mqpg._fold_segments() f;
        v_changed := found;
    end if;
    if not v_changed then
        return query select m.* from mqpg._merge() m;
    end if;
end
$$;

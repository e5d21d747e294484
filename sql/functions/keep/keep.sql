-- Maintains the segments: it notes which are in use, begins new ones by age, makes some ahead,
-- copies cursors to newer slots, closes complete segments, and drops what is past retention and no
-- longer needed (I11). One call drops at most one table, and none if it made or copied something.
-- Where nothing can be dropped, it merges closed segments, a piece at a time.
-- While another keeper is at work it does nothing.
-- Call it until it returns no row except pinned and blocked, then about every minute. A worker does
-- that; pg_cron may call it too.
-- Returns: one row for each thing that it did. action: opened, rolled, made, carried, closed,
-- dropped, pinned (detail says by what), freed (oldest offsets moved), lost (by a policy), blocked
-- (in use, tried again next time), purged, merging and merged (closed segments put together).
-- Locks: the keeper's, until commit; each wait for a table is 200 ms at most.
-- Cost: a few lookups when there is nothing to do.
-- Errors: MQ015 (must be called in a READ COMMITTED transaction that has written nothing).
create function mqpg.keep() returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_last_value bigint;
    v_changed boolean := false;
begin
    perform mqpg._require_own_transaction('keep');
    if not pg_try_advisory_xact_lock(1836150835, 0) then
        return;
    end if;
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
    if not v_changed then
        for action, family, segment_no, detail in select d.* from mqpg._drop_one_table() d loop
            v_changed := v_changed or action not in ('pinned', 'blocked');
            return next;
        end loop;
    end if;
    if not v_changed then
        return query select m.* from mqpg._merge() m;
    end if;
end
$$;
comment on function mqpg.keep() is 'Make, close and drop segments; returns what it did';

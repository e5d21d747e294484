-- One pass of the keeper: notes what is in use, begins new segments by age, makes some ahead, carries cursors, closes
-- what is complete, and drops what is past retention and needed by nobody (I11), at most one table a pass and none in
-- a pass that made or carried something. Returns what it did: action opened, rolled, made, carried, closed, dropped,
-- pinned (with what pins it), freed (oldest offsets moved), lost (by a policy: what, of whom), blocked (busy, next
-- time), purged. Nothing where another keeper is at it. Call it until it returns no row but pinned and blocked, then
-- every minute or so; pg_cron may.
-- Locks: the keeper's lock till commit; see the parts; every wait for a table is short. Cost: a few lookups where
-- there is nothing to do. Errors: MQ015.
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
        return query select d.* from mqpg._drop_segments() d;
    end if;
end
$$;
comment on function mqpg.keep() is 'One pass of the keeper: make, close and drop segments; returns what it did';

-- The time up to which append() delivers what is due: the broker's time, which never goes back. If the
-- server's clock did, the broker's time continues from where it was, so that delays stay as long as
-- they were meant. When the clock jumps forward again, the broker's time comes nearer to it. A
-- difference of a second is left alone. Messages that were sent since the step have counted from the
-- newest tick on, so the time since the first of them is over already.
-- Locks: none beyond the rows; append() runs one at a time. Cost: one row read; see _note_clock_step().
create function mqpg._move_broker_time(due_until timestamptz, since xid8) returns timestamptz
language plpgsql as $$
declare
    v_clock mqpg.clock;
    v_now timestamptz := clock_timestamp();
    v_gap interval;
    v_stepped timestamptz;  -- by then the clock had gone back
begin
    select c.* into v_clock from mqpg.clock c;
    v_clock.ahead := coalesce(v_clock.ahead, '0');
    if v_now + v_clock.ahead < _move_broker_time.due_until - interval '1 second'
        and _move_broker_time.due_until < 'infinity' then
        select least(v_now, min(l.born_at)) into v_stepped
        from mqpg.delayed d join mqpg.commit_log l on l.batch_id = d.first_id / 1024 and l.kind = 'd'
        where d.xid >= _move_broker_time.since and d.subscription_id = 0;
        perform mqpg._note_clock_step(
            make_interval(secs => extract(epoch from _move_broker_time.due_until - v_stepped - v_clock.ahead)::float8));
        return _move_broker_time.due_until + (v_now - v_stepped);
    end if;
    if v_clock.ahead > '0' then
        v_gap := make_interval(secs => extract(epoch from v_now - v_clock.seen_at)::float8);
        if v_gap > interval '1 minute' then
            v_gap := least(v_gap, v_clock.ahead);
            v_clock.ahead := v_clock.ahead - v_gap;
            insert into mqpg.clock_step (at, by, ahead, dead_letters) values (v_now, -v_gap, v_clock.ahead, 0);
        end if;
        if v_now not between v_clock.seen_at and v_clock.seen_at + interval '1 second' then
            update mqpg.clock c set ahead = v_clock.ahead, seen_at = v_now;
        end if;
    end if;
    return greatest(_move_broker_time.due_until, v_now + v_clock.ahead);
end
$$;

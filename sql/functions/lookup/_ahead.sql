-- By how much the broker's time is ahead of the server's clock, as exact seconds: `0` unless the clock
-- went back. append() may not have noticed yet, so the newest tick counts, too.
-- Locks: none. Cost: three index lookups.
create function mqpg._ahead() returns interval
language plpgsql volatile as $$
declare
    v_ahead interval;
    v_due timestamptz;
    v_now timestamptz := clock_timestamp();
begin
    select c.ahead into v_ahead from mqpg.clock c;
    v_ahead := coalesce(v_ahead, '0');
    select t.due_until into v_due from mqpg.tick t
    where t.tick_id >= (
        select s.lower_bound::bigint from mqpg.segment s
        where s.family = 'tick' and s.opened_at is not null order by s.segment_no desc limit 1)
    order by t.tick_id desc limit 1;
    if v_due > v_now + v_ahead then
        return make_interval(secs => date_part('epoch', v_due - v_now));
    end if;
    return v_ahead;
end
$$;

-- By how much the broker's time is ahead of the server's clock; see _broker_time().
-- It is plpgsql, not sql, so that its plan is kept.
-- Locks: none. Cost: two rows read.
create function mqpg._ahead() returns interval
language plpgsql volatile as $$
declare
    v_now timestamptz := clock_timestamp();
begin
    return b.ahead from mqpg._broker_time(v_now) b;
end
$$;

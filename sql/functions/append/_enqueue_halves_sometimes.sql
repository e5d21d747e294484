-- Puts undecided half messages into the check queue, about once a second. Most half messages are
-- decided within milliseconds, so they never need an entry. None is forgotten, because an entry
-- follows from the half message. If it fails, messages are delivered all the same: the compensator
-- does the same and says why it cannot.
-- The first pass that begins in a second looks. If the two newest ticks are of this second, the
-- newer one's pass began in it. One tick does not say that, because a long pass may have begun in
-- the second before. The setting mqpg.looked_at remembers the second in which the session found two
-- such ticks, or the second and the newest tick when it looked itself; then it does not look again.
-- Locks: 1836150834, 1, tried only.
-- Cost: negligible; once a second a few index lookups, and that of _enqueue_halves() when it is not too
-- early.
create function mqpg._enqueue_halves_sometimes(
    snapshot pg_snapshot, batch_seq bigint, last_tick mqpg.tick
) returns void
language plpgsql as $$
declare
    v_second timestamptz := date_trunc('second', clock_timestamp());
    v_mark text := concat_ws(' ', v_second, (_enqueue_halves_sometimes.last_tick).tick_id);
    v_recent bigint;
    v_last timestamptz;
begin
    if current_setting('mqpg.looked_at', true) in (v_second::text, v_mark) then
        return;
    end if;
    if date_trunc('second', (_enqueue_halves_sometimes.last_tick).at) = v_second and exists (
        select from mqpg.tick t
        where t.tick_id = (_enqueue_halves_sometimes.last_tick).tick_id - 1 and t.at >= v_second)
    then
        perform set_config('mqpg.looked_at', v_second::text, false);
        return;
    end if;
    perform set_config('mqpg.looked_at', v_mark, false);
    v_recent := mqpg._recent_tick();
    v_last := (
        select h.at from mqpg.half_tick h where h.half_tick_id >= v_recent order by h.half_tick_id desc limit 1);
    if v_last is null then
        v_last := (select h.at from mqpg.half_tick h order by h.half_tick_id desc limit 1);
    end if;
    if v_last is null or v_last not between clock_timestamp() - interval '500 milliseconds' and clock_timestamp() then
        begin
            perform mqpg._enqueue_halves(_enqueue_halves_sometimes.snapshot, _enqueue_halves_sometimes.batch_seq);
        exception when others then
            raise warning 'append() enqueued no half message: %', sqlerrm;
        end;
    end if;
end
$$;

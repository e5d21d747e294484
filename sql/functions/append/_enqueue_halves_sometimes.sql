-- Puts undecided half messages into the op-log queue, about once a second. Most half messages are
-- decided within milliseconds, so they never need an entry. None is forgotten, because an entry
-- follows from the half message.
-- Locks: 1836150834, 1, tried only.
-- Cost: one index lookup when it is too early.
create function mqpg._enqueue_halves_sometimes(snapshot pg_snapshot, batch_seq bigint) returns void
language plpgsql as $$
declare
    v_recent bigint := mqpg._recent_tick();
    v_last timestamptz := (
        select h.at from mqpg.half_tick h where h.half_tick_id >= v_recent order by h.half_tick_id desc limit 1);
begin
    if v_last is null then
        v_last := (select h.at from mqpg.half_tick h order by h.half_tick_id desc limit 1);
    end if;
    if v_last is null or v_last < clock_timestamp() - interval '1 second' then
        perform mqpg._enqueue_halves(_enqueue_halves_sometimes.snapshot, _enqueue_halves_sometimes.batch_seq);
    end if;
end
$$;
comment on function mqpg._enqueue_halves_sometimes(pg_snapshot, bigint) is
    'Internal: put half messages into the op-log queue about once a second';

-- Feeds the op-log queue about once a second: a half decided in milliseconds, as nearly all are, never gets
-- an entry, and none is forgotten, since an entry follows from the half.
-- Locks: as _enqueue_halves. Cost: one index lookup where it is too early.
create function mqpg._enqueue_halves_sometimes(snapshot pg_snapshot, batch_seq bigint) returns void
language plpgsql as $$
declare
    v_last timestamptz := (select h.at from mqpg.half_tick h order by h.half_tick_id desc limit 1);
begin
    if v_last is null or v_last < clock_timestamp() - interval '1 second' then
        perform mqpg._enqueue_halves(_enqueue_halves_sometimes.snapshot, _enqueue_halves_sometimes.batch_seq);
    end if;
end
$$;
comment on function mqpg._enqueue_halves_sometimes(pg_snapshot, bigint)
    is 'Internal: feed the op-log queue about once a second';

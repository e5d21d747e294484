-- Writes what _acked_cursor() returned, as a version of its own.
-- Locks, cost, errors: as _write_cursor().
create function mqpg._write_ack(acked mqpg.cursor) returns bigint
language plpgsql as $$
begin
    return mqpg._write_cursor(
        _write_ack.acked, mqpg._action('ack'), _write_ack.acked.epoch, _write_ack.acked.claimed, _write_ack.acked.owner,
        _write_ack.acked.claims);
end
$$;

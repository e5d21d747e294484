-- Ends an expired half message that is in the check queue, and returns 'expired', or parks it because
-- the fence for its rollback cannot be set here, and returns 'parked': its ledger is in another
-- database, or the ledger of this one has lost rows. Null: see _end_expired().
-- Locks, cost: as of _end_expired(), or a move to the archive.
create function mqpg._end_or_park(handle text, producer_group text, msg_id bigint, reason text) returns text
language plpgsql as $$
declare
    v_message_id bigint := split_part(_end_or_park.handle, '.', 3)::bigint;
    v_ledger text := (select mqpg._ledger_of(h.nonce) from mqpg._half_by_id(v_message_id) h);
    v_obstacle text := case
        when v_ledger is not null then 'a rollback needs a fence in ' || mqpg._ledger_name(_end_or_park.producer_group, v_ledger)
        when mqpg._ledger_has_lost(v_message_id)
            and not exists (select from mqpg.ledger l where l.handle = _end_or_park.handle) then mqpg._lost_rows()
    end;
begin
    if v_obstacle is null then
        return case
            when mqpg._end_expired(_end_or_park.handle, _end_or_park.producer_group, _end_or_park.reason) is not null
                then 'expired'
        end;
    end if;
    perform mqpg._park(v_message_id, _end_or_park.msg_id, 'expiry', concat_ws('; ', _end_or_park.reason, v_obstacle));
    return 'parked';
end
$$;

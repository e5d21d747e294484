-- Has a parked half message checked again, at once, with its checks counted from zero.
-- Arguments:
--   handle: the handle of the half message, as the view half_parked shows it.
-- Locks: the archived entry's row.
-- Cost: a delete and two inserts.
-- Errors: MQ001 (null), MQ006 (unknown handle), MQ018 (not parked).
create function mqpg.rearm(handle text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set standard_conforming_strings = on as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_half record;
    v_message jsonb;
begin
    select h.* into v_half from mqpg._require_half(rearm.handle) h;
    if not v_half.decided then
        delete from pgmq.a_mqpg_oplog a
        where (a.message ->> 'message_id')::bigint = v_half.message_id
        returning a.message into v_message;
    end if;
    if v_message is null then
        if not v_half.decided then
            perform mqpg._require_fresh(null);
        end if;
        raise exception using errcode = 'MQ018', message = format('half message %s is %s', v_half.message_id,
            case when v_half.decided then 'decided' else 'not parked' end);
    end if;
    perform mqpg._log_check(v_half.message_id, 'rearmed', 'role ' || mqpg._caller());
    perform pgmq.send('mqpg_oplog', v_message);
end
$$;

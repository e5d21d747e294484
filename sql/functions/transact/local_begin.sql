-- Writes the ledger row of a local transaction in this database (protocol T2, step 2). Call it as
-- the first statement of the local transaction. It fails, and with it the transaction, when a
-- check-back came first or when the half message is already decided. The local commit is flushed to
-- disk whatever the session's synchronous_commit says, because a message must not outlive its
-- business change.
-- Arguments:
--   handle: the handle from prepare().
-- Locks: the ledger key; waits for a running check-back.
-- Cost: one insert.
-- Errors: MQ001 (null), MQ006 (unknown handle), MQ017 (a check-back came first), MQ018 (already
-- decided, or the local transaction was already begun).
--
-- Example:
--     begin;
--     select mqpg.local_begin('<handle>');
--     update accounts set balance = balance - 100 where id = 7;
--     commit;
create function mqpg.local_begin(handle text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_half record;
    v_entry text;
    v_decision "char";
begin
    if local_begin.handle is null then
        raise exception using errcode = 'MQ001', message = 'handle must not be null';
    end if;
    select h.* into v_half from mqpg._half_by_handle(local_begin.handle) h;
    if not mqpg._is_owner() then
        perform mqpg._require_half_of(v_half.producer_group_id);
    end if;
    if not v_half.known then
        raise exception using errcode = 'MQ006',
            message = format('handle %L is unknown to this broker', local_begin.handle);
    end if;
    perform mqpg._force_sync();
    insert into mqpg.ledger (handle) values (local_begin.handle) on conflict do nothing;
    if not found then
        select l.entry into strict v_entry from mqpg.ledger l where l.handle = local_begin.handle;
        if v_entry = 'fence' then
            raise exception using errcode = 'MQ017',
                message = format('half message %s was rolled back, because a check-back came first', v_half.message_id);
        end if;
        raise exception using errcode = 'MQ018',
            message = format('the local transaction of half message %s was already begun', v_half.message_id);
    end if;
    select o.op into v_decision from mqpg.op_log o where o.message_id = v_half.message_id and o.stage = 0;
    if found then
        raise exception using errcode = 'MQ018', message = format(
            'half message %s is already %s', v_half.message_id,
            case v_decision when 'c' then 'committed' else 'rolled back' end);
    end if;
end
$$;

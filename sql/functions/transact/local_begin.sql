-- Writes the ledger row of a local transaction in this database (protocol T2, step 2): call it first in the
-- local transaction. It fails, and with it the transaction, where a check-back came first (MQ017) or the
-- half is decided or was begun before (MQ018). The local commit waits for the disk whatever the session's
-- synchronous_commit says: a message must not outlive its business change.
-- Locks: the ledger key; waits for a check-back under way. Cost: one insert. Errors: MQ001, MQ006, MQ017, MQ018.
create function mqpg.local_begin(handle text) returns void
language plpgsql as $$
declare
    v_half record;
    v_entry text;
    v_decision "char";
begin
    if local_begin.handle is null then
        raise exception using errcode = 'MQ001', message = 'handle must not be null';
    end if;
    select h.* into v_half from mqpg._half_by_handle(local_begin.handle) h;
    if not v_half.known then
        raise exception using errcode = 'MQ006', message = format('handle %L names no half message here', local_begin.handle);
    end if;
    perform mqpg._force_sync();
    insert into mqpg.ledger (handle) values (local_begin.handle) on conflict do nothing;
    if not found then
        select l.entry into strict v_entry from mqpg.ledger l where l.handle = local_begin.handle;
        if v_entry = 'fence' then
            raise exception using errcode = 'MQ017',
                message = format('a check-back came first: half message %s is rolled back', v_half.message_id);
        end if;
        raise exception using errcode = 'MQ018',
            message = format('the local transaction of half message %s was begun before', v_half.message_id);
    end if;
    select o.op into v_decision from mqpg.op_log o where o.message_id = v_half.message_id and o.stage = 0;
    if found then
        raise exception using errcode = 'MQ018', message = format(
            'half message %s is already %s', v_half.message_id,
            case v_decision when 'c' then 'committed' else 'rolled back' end);
    end if;
end
$$;
comment on function mqpg.local_begin(text) is 'Ledger row in this database: first statement of the local transaction';

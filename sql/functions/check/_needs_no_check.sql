-- Whether the half message of an entry need not be asked about. The entry of one that is decided, or is
-- gone (then message_id is null), is deleted.
-- One that was prepared before its group got its present ledger is parked. Its prepare() was still open
-- when alter_producer_group() looked, and the new ledger, which does not contain its handle, would
-- mean rollback. The same is true of half messages of an adopted copy whose ledger, or the tables of
-- whose checker, know only the original's handles. An app that polls due_checks() is asked about those
-- that carry no ledger, and a function about those that were prepared since the adoption.
-- Locks: the caller holds the entry's row. Cost: one index lookup for all others.
create function mqpg._needs_no_check(producer_group mqpg.producer_group, message_id bigint, msg_id bigint)
returns boolean
language plpgsql as $$
declare
    v_half record;
begin
    if _needs_no_check.message_id is null or mqpg._is_decided_half(_needs_no_check.message_id) then
        delete from pgmq.q_mqpg_oplog q where q.msg_id = _needs_no_check.msg_id;
        return true;
    end if;
    if _needs_no_check.message_id / 1024 > (_needs_no_check.producer_group).ledger_since then
        return false;
    end if;
    select mqpg._ledger_of(h.nonce) as ledger, h.incarnation into v_half
    from mqpg._half_by_id(_needs_no_check.message_id) h;
    if (_needs_no_check.producer_group).checker = 'due_checks' and v_half.ledger is null
        or (_needs_no_check.producer_group).checker = 'function'
        and v_half.incarnation = (select b.incarnation from mqpg.broker b)
    then
        return false;
    end if;
    perform mqpg._park(_needs_no_check.message_id, _needs_no_check.msg_id,
        (_needs_no_check.producer_group).checker,
        'prepared before its group got this ledger, which does not contain its handle');
    return true;
end
$$;

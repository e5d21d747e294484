-- Parks a half message that was prepared before its group got its present ledger, and returns
-- whether it was one. Its prepare() was still open when alter_producer_group() looked, and the new
-- ledger, which does not contain its handle, would mean rollback. The same is true of half messages
-- of an adopted copy whose ledger, or the tables of whose checker, know only the original's handles.
-- An app that polls due_checks() is asked about those that carry no ledger, and a function about those
-- that were prepared since the adoption.
-- Locks: the caller holds the entry's row. Cost: negligible for all others.
create function mqpg._park_other_ledger(producer_group mqpg.producer_group, message_id bigint, msg_id bigint)
returns boolean
language plpgsql as $$
declare
    v_half record;
begin
    if _park_other_ledger.message_id / 1024 > (_park_other_ledger.producer_group).ledger_since then
        return false;
    end if;
    select mqpg._ledger_of(h.nonce) as ledger, h.incarnation into v_half
    from mqpg._half_by_id(_park_other_ledger.message_id) h;
    if (_park_other_ledger.producer_group).checker = 'due_checks' and v_half.ledger is null
        or (_park_other_ledger.producer_group).checker = 'function'
        and v_half.incarnation = (select b.incarnation from mqpg.broker b)
    then
        return false;
    end if;
    perform mqpg._park(_park_other_ledger.message_id, _park_other_ledger.msg_id,
        (_park_other_ledger.producer_group).checker,
        'prepared before its group got this ledger, which does not contain its handle');
    return true;
end
$$;

-- Looks into this database's ledger and makes the answer final (protocol T3). It inserts a fence
-- under the key that the local transaction uses. If the insert succeeds, the verdict is rollback,
-- and a later local transaction fails on the key. If a row exists, a new statement reads it: a
-- local row means commit, and a fence, from before a crash, means rollback. If an open local
-- transaction holds the key, the verdict is wait. If the ledger has lost rows since the half message
-- was prepared and there is none, there is no verdict: null. Call it in a READ COMMITTED transaction
-- that decides at once.
-- Locks: the ledger key, waited for at most 50 ms.
-- Cost: one insert or one lookup, and two lookups.
create function mqpg._fence(handle text) returns mqpg.verdict
language plpgsql
set lock_timeout = '50ms' as $$
declare
    v_entry text;
begin
    if mqpg._ledger_has_lost(split_part(_fence.handle, '.', 3)::bigint) then
        select l.entry into v_entry from mqpg.ledger l where l.handle = _fence.handle;
        return case v_entry when 'local' then 'commit' when 'fence' then 'rollback' end;
    end if;
    insert into mqpg.ledger (handle, entry) values (_fence.handle, 'fence') on conflict do nothing;
    if found then
        return 'rollback';
    end if;
    select l.entry into v_entry from mqpg.ledger l where l.handle = _fence.handle;
    return case v_entry when 'local' then 'commit' when 'fence' then 'rollback' else 'wait' end;
exception when lock_not_available then
    return 'wait';
end
$$;

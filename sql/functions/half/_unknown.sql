-- The outcome or state of a handle that names no visible half message: `unknown`. Raises 40001 if
-- the half message may exist, but not in the snapshot of the caller.
-- Locks: none. Cost: one setting in READ COMMITTED; else see _require_fresh().
create function mqpg._unknown(handle text) returns text
language plpgsql stable as $$
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform mqpg._require_fresh(p.message_id)
        from mqpg._parse_handle(_unknown.handle) p
        join mqpg.broker b on b.broker_id = p.broker_id and p.incarnation <= b.incarnation;
    end if;
    return 'unknown';
end
$$;

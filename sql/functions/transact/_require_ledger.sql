-- Raises for what is no identity of a ledger.
-- Locks: none. Cost: negligible.
create function mqpg._require_ledger(ledger text) returns void
language plpgsql immutable as $$
begin
    if _require_ledger.ledger !~ '^[0-9a-f]{8}$' then
        raise exception using errcode = 'MQ001',
            message = format('ledger must be eight hexadecimal digits, not %L', left(_require_ledger.ledger, 100));
    end if;
end
$$;

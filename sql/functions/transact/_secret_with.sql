-- The secret of a batch of half messages that carries the identity of a ledger: version 8 of a UUID,
-- which begins with it. 90 random bits are left. Other secrets have version 4. If there is no ledger,
-- the secret stays as it is.
-- Locks: none. Cost: negligible.
-- Errors: MQ001 (not eight hexadecimal digits).
create function mqpg._secret_with(ledger text, secret uuid) returns uuid
language plpgsql immutable as $$
begin
    if _secret_with.ledger !~ '^[0-9a-f]{8}$' then
        raise exception using errcode = 'MQ001',
            message = format('ledger must be eight hexadecimal digits, not %L', left(_secret_with.ledger, 100));
    end if;
    return coalesce(
        overlay(overlay(_secret_with.secret::text placing '8' from 15) placing _secret_with.ledger from 1)::uuid,
        _secret_with.secret);
end
$$;

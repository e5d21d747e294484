-- Shortens the leases and waits of one queue, which were written while the server's clock was ahead by
-- `by`. Receipts stay valid.
-- Locks: none; the caller holds the queue's cursor lock.
-- Cost: one cursor version.
-- Errors: 40001.
create function mqpg._shorten_claims(last_version mqpg.cursor, by interval) returns void
language plpgsql as $$
declare
    v_claims mqpg.claim [] := (_shorten_claims.last_version).claims;
begin
    for v_i in 1..cardinality(v_claims) loop
        v_claims[v_i].lease_until := v_claims[v_i].lease_until - _shorten_claims.by;
    end loop;
    perform mqpg._write_cursor(
        _shorten_claims.last_version, mqpg._action('extend'), null, (_shorten_claims.last_version).claimed,
        (_shorten_claims.last_version).owner, v_claims);
end
$$;

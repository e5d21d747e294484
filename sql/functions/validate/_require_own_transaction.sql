-- Raises in a transaction that has already written, or that runs above READ COMMITTED. The caller's
-- own transaction id is not in its snapshot's list of running ones, so whatever it wrote would
-- count as appended and be lost.
-- Locks: none. Cost: negligible.
create function mqpg._require_own_transaction(function_name text) returns void
language plpgsql as $$
begin
    if pg_current_xact_id_if_assigned() is not null then
        raise exception using errcode = 'MQ015', message = format(
            '%s() must run in a transaction of its own: this one has already written',
            _require_own_transaction.function_name);
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception using errcode = 'MQ015', message = format(
            '%s() must run in a READ COMMITTED transaction, not %s', _require_own_transaction.function_name,
            upper(current_setting('transaction_isolation')));
    end if;
end
$$;

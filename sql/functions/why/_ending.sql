-- The statement that ends what _session() names; null for null.
-- Locks: none. Cost: negligible.
create function mqpg._ending(session jsonb) returns text
language sql immutable strict as $$
    select case
        when _ending.session ? 'pid' then format('select pg_terminate_backend(%s);', _ending.session ->> 'pid')
        else format('rollback prepared %L;', _ending.session ->> 'prepared_transaction')
    end
$$;

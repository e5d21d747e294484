-- Trigger on a partition that keep() has sealed. Only a transaction with a snapshot from before the
-- partition was closed can try to write there.
-- Locks: none. Cost: negligible.
-- Errors: 40001.
create function mqpg._refuse_insert() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    raise exception using errcode = '40001', message = format(
        'table %s is closed and about to be dropped: try the transaction again', tg_table_name);
end
$$;

-- Trigger on a partition that keep() has sealed. It raises for a transaction with a snapshot from
-- before the partition was closed. ack() tries the version after that of a receipt before it looks
-- whether there is a newer one. So a version that is there already is left out, as its ON CONFLICT
-- DO NOTHING would do, which comes after a trigger.
-- Locks: none. Cost: negligible; one lookup for a cursor.
-- Errors: 40001.
create function mqpg._refuse_insert() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    if tg_table_name like 'cursor%' then
        if exists (
            select from mqpg.cursor k
            where k.subscription_id = new.subscription_id and k.queue_id = new.queue_id
                and k.version = new.version and k.slot = new.slot) then
            return null;
        end if;
    end if;
    raise exception using errcode = '40001', message = format(
        'table %s is closed and about to be dropped: try the transaction again', tg_table_name);
end
$$;

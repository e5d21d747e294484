-- The column that a table is partitioned by. The setting quote_all_identifiers puts it in quotes.
-- Locks: none. Cost: one look into the catalog.
create function mqpg._partition_column(parent text) returns text
language sql stable as $$
    select substring(pg_get_partkeydef(to_regclass('mqpg.' || _partition_column.parent)) from '[(]"?([a-z_]+)"?[)]')
$$;

-- Gives a table without a primary key a replica identity: a unique index if it has one, else the
-- whole row. With a publication that contains the table, PostgreSQL raises for an UPDATE or DELETE
-- of a table without one.
-- Locks: ACCESS EXCLUSIVE on the table if it needs one. Cost: DDL then, else a look into the catalog.
create function mqpg._identify_rows(schema_name text, table_name text) returns void
language plpgsql as $$
declare
    v_table oid := to_regclass(format('%I.%I', _identify_rows.schema_name, _identify_rows.table_name));
    v_index text := (
        select quote_ident(c.relname)
        from pg_index i
        join pg_class c on c.oid = i.indexrelid
        where i.indrelid = v_table and i.indisunique and i.indimmediate and i.indpred is null and i.indexprs is null
            and not exists (
                select from pg_attribute a
                where a.attrelid = v_table and a.attnum = any(i.indkey) and not a.attnotnull)
        order by i.indexrelid limit 1);
begin
    if exists (
        select from pg_class c
        where c.oid = v_table and (c.relreplident <> 'd'
            or exists (select from pg_index i where i.indrelid = v_table and i.indisprimary)))
    then
        return;
    end if;
    execute format('alter table %s replica identity %s', v_table::regclass,
        coalesce('using index ' || v_index, 'full'));
end
$$;

-- Gives every table a primary key or a replica identity, so that a publication that contains it
-- stops neither UPDATE nor DELETE.
-- breaking: no
do $$
declare
    v_table record;
begin
    for v_table in
        select c.oid, c.relnamespace::regnamespace::text as schema_name, (
            select quote_ident(k.relname)
            from pg_index i join pg_class k on k.oid = i.indexrelid
            where i.indrelid = c.oid and i.indisunique and i.indimmediate and i.indpred is null and i.indexprs is null
                and not exists (
                    select from pg_attribute a
                    where a.attrelid = c.oid and a.attnum = any(i.indkey) and not a.attnotnull)
            order by i.indexrelid limit 1) as index_name
        from pg_class c
        where c.relnamespace in ('mqpg'::regnamespace, 'pgmq'::regnamespace)
            and c.relkind in ('r', 'p') and c.relpersistence = 'p' and c.relreplident = 'd'
            and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)
        order by c.relkind desc, c.oid
    loop
        begin
            execute format('alter table %s replica identity %s', v_table.oid::regclass,
                coalesce('using index ' || v_table.index_name, 'full'));
        exception when insufficient_privilege then
            if v_table.schema_name <> 'pgmq' then
                raise;
            end if;
        end;
    end loop;
end $$;

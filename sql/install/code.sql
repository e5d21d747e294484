-- Runs after the last migration, in its transaction and as the owner. It replaces all functions,
-- views and triggers by those of this release.
-- A function that is gone, or has another signature, is not dropped: a call that another session
-- has planned already would fail. It moves to the schema mqpg_retired, where that call still finds
-- it, and the next upgrade drops it. Without that schema it is dropped at once.
-- Locks: those of its DDL. Replacing a view waits for its readers, so a view that stays the same is
-- left alone. Cost: runs once per migration.
do $mqpg_code$
declare
    v_kinds text [] := array[/* mqpg: kind */]::text [];
    v_schemas text [] := array[/* mqpg: schema */]::text [];
    v_names text [] := array[/* mqpg: name */]::text [];
    v_definitions text [] := array[/* mqpg: definition */]::text [];
    v_comments text [] := array[/* mqpg: comments */]::text [];
    v_before text [];
    v_gone regprocedure;
    v_view regclass;
    v_new text;
    v_same boolean;
    v_keeps boolean := coalesce(has_schema_privilege(to_regnamespace('mqpg_retired'), 'create'), false);
    v_retire text := case when v_keeps then 'alter routine %s set schema mqpg_retired' else 'drop routine %s' end;
begin
    perform set_config('check_function_bodies', 'off', true);
    -- What the upgrade before this one has moved there.
    for v_gone in
        select p.oid from pg_proc p
        where p.pronamespace = to_regnamespace('mqpg_retired') and p.proowner = current_user::regrole
    loop
        execute format('drop routine %s', v_gone);
    end loop;
    v_before := array(
        select p.oid || ' ' || p.xmin from pg_proc p where p.pronamespace = 'mqpg'::regnamespace);

    for i in 1 .. cardinality(v_kinds) loop
        continue when v_kinds[i] <> 'function';
        begin
            execute v_definitions[i];
        exception when invalid_function_definition then
            -- Its result or the names of its arguments have changed.
            for v_gone in
                select p.oid from pg_proc p
                where p.pronamespace = 'mqpg'::regnamespace and p.proname = v_names[i]
            loop
                execute format(v_retire, v_gone);
            end loop;
            execute v_definitions[i];
        end;
    end loop;

    -- Before the views, which must not find two candidates. A drop must wait until no view needs it.
    for v_gone in
        select p.oid from pg_proc p
        where v_keeps and p.pronamespace = 'mqpg'::regnamespace and p.oid || ' ' || p.xmin = any(v_before)
    loop
        execute format(v_retire, v_gone);
    end loop;

    for i in 1 .. cardinality(v_kinds) loop
        continue when v_kinds[i] <> 'view';
        v_same := false;
        v_view := to_regclass(format('%s.%s', v_schemas[i], v_names[i]));
        if v_view is not null then
            v_new := format('%s._new_%s', v_schemas[i], v_names[i]);
            execute replace(
                v_definitions[i], format('view %s.%s', v_schemas[i], v_names[i]), format('view %s', v_new));
            select pg_get_viewdef(v_view) = pg_get_viewdef(n.oid)
                and array(select a.attname from pg_attribute a where a.attrelid = v_view order by a.attnum)
                = array(select a.attname from pg_attribute a where a.attrelid = n.oid order by a.attnum)
            into v_same
            from pg_class n where n.oid = v_new::regclass;
            execute format('drop view %s', v_new);
        end if;
        if not v_same then
            begin
                execute v_definitions[i];
            exception when invalid_table_definition then
                execute format('drop view %s', v_view);
                execute v_definitions[i];
            end;
        end if;
        execute v_comments[i];
    end loop;
    for v_view in
        select c.oid from pg_class c inner join pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('mqpg', 'mqpg_audit') and c.relkind = 'v' and not exists (
            select from unnest(v_kinds, v_schemas, v_names) as w (kind, schema, name)
            where w.kind = 'view' and w.schema = n.nspname and w.name = c.relname)
    loop
        execute format('drop view %s', v_view);
    end loop;

    for i in 1 .. cardinality(v_kinds) loop
        if v_kinds[i] = 'trigger' then
            execute v_definitions[i];
        end if;
    end loop;

    for v_gone in
        select p.oid from pg_proc p
        where not v_keeps and p.pronamespace = 'mqpg'::regnamespace and p.oid || ' ' || p.xmin = any(v_before)
    loop
        execute format(v_retire, v_gone);
    end loop;
end $mqpg_code$;

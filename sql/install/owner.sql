-- Runs before the migrations, in their transaction. It decides which role owns the schema, and
-- becomes that role, so that everything the migrations make belongs to it. The functions of mqpg
-- run with the rights of this role, so it must not be a superuser, and nobody logs in as it.
-- A schema that is installed keeps its owner. A new one belongs to the role that `mqpg migrate
-- --owner` names, else to mqpg_owner. The role is made if it is missing. If the migrating role may
-- neither make it nor become it, the migrating role itself is the owner, unless --owner was given.
-- A role mqpg_owner that is there already is used only while no role but superusers and the
-- migrating role can become it. The schema mqpg_audit, with the views of auditors, belongs to the
-- same role.
-- What others have put into the schemas mqpg, mqpg_audit and pgmq before is never used, because it
-- would run with the rights of the migrating role now and with those of the owner later.
-- Locks: those of its DDL. Cost: runs once per migration.
-- Errors: 42501; the hint says what to run.
set local search_path = pg_catalog, pg_temp;
do $mqpg$
declare
    v_named text := nullif('/* mqpg: role */', '');
    v_owner text := coalesce(v_named, 'mqpg_owner');
    v_me text := current_user;
    v_installed text;
    v_becoming text := case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end;
    v_queue regclass;
    v_made boolean := false;    -- the owner is a role that this migration has made
    v_role record;
    v_trusted oid [];    -- who may own what is in the schema pgmq already
    v_foreign record;
begin
    select r.rolname into v_installed
    from pg_namespace n inner join pg_roles r on r.oid = n.nspowner
    where n.nspname = 'mqpg' and exists (
        select from pg_class c where c.relnamespace = n.oid and c.relname = 'broker');
    if coalesce(to_regnamespace('mqpg')::oid::text, '') <> current_setting('mqpg.trusted_schema') then
        raise exception using errcode = 'insufficient_privilege',
            message = 'somebody else has made or dropped the schema mqpg just now',
            hint = 'Run mqpg migrate again.';
    end if;
    if v_installed is not null then
        if v_named <> v_installed then
            raise exception using errcode = 'insufficient_privilege',
                message = format('the schema mqpg of this database belongs to %I, not to %I', v_installed, v_named),
                hint = 'Call mqpg migrate without --owner. The owner is chosen when the schema is installed.';
        end if;
        v_owner := v_installed;
    elsif not exists (select from pg_roles r where r.rolname = v_owner) then
        begin
            execute format('create role %I nologin', v_owner);
            v_made := true;
            execute format('comment on role %I is %L', v_owner, 'Owns the schema mqpg; nobody logs in as it');
        exception
            when duplicate_object or unique_violation then
                null;    -- another migration made it at the same time
            when insufficient_privilege then
                if v_named is not null then
                    raise exception using errcode = 'insufficient_privilege',
                        message = format('role %I does not exist, and %I may not create it', v_owner, v_me),
                        hint = format('Let an administrator run: create role %I nologin; grant %I to %I;',
                            v_owner, v_owner, v_me);
                end if;
                v_owner := v_me;
        end;
    end if;
    if v_owner <> v_me and not pg_has_role(v_me, v_owner, v_becoming) then
        begin
            execute format('grant %I to %I', v_owner, v_me);
        exception when insufficient_privilege then
            if v_named is not null or v_installed is not null then
                raise exception using errcode = 'insufficient_privilege',
                    message = format('%I is not a member of %I, the owner of the schema mqpg', v_me, v_owner),
                    hint = format('Let an administrator run: grant %I to %I;', v_owner, v_me);
            end if;
            v_owner := v_me;
        end;
    end if;
    if v_installed is null and (select r.rolsuper from pg_roles r where r.rolname = v_owner) then
        raise exception using errcode = 'insufficient_privilege',
            message = format('the schema mqpg must not belong to the superuser %I', v_owner),
            hint = 'The functions of mqpg run with the rights of the owner. Name another role, or none.';
    end if;
    if v_installed is null and v_named is null and v_owner <> v_me and not v_made then
        select r.rolcanlogin, r.rolcreaterole, r.rolcreatedb, r.rolreplication, r.rolbypassrls, array(
            select m.rolname from pg_roles m
            where not m.rolsuper and m.oid <> r.oid and m.rolname <> v_me and pg_has_role(m.oid, r.oid, 'member')
            order by 1) as members
        into v_role
        from pg_roles r where r.rolname = v_owner;
        if v_role.rolcanlogin or v_role.rolcreaterole or v_role.rolcreatedb or v_role.rolreplication
            or v_role.rolbypassrls or v_role.members <> '{}' then
            raise exception using errcode = 'insufficient_privilege',
                message = format('the role %I is there already, and %s', v_owner, case
                    when v_role.rolcanlogin then 'it can log in'
                    when v_role.members <> '{}' then format('%s can become it',
                        array_to_string(v_role.members, ', '))
                    else 'it has attributes such as CREATEROLE' end),
                hint = format('The owner of the schema may do everything in mqpg. Call mqpg migrate --owner with the '
                    'name of another role, or with %s where this is intended.', quote_ident(v_owner));
        end if;
    end if;
    if to_regnamespace('mqpg') is null then
        execute format('create schema mqpg authorization %I', v_owner);
    elsif v_installed is null then
        select coalesce(pg_describe_object(d.classid, d.objid, 0), '') as name into v_foreign
        from pg_depend d
        where d.refclassid = 'pg_namespace'::regclass and d.refobjid = to_regnamespace('mqpg')
        limit 1;
        if found then
            raise exception using errcode = 'insufficient_privilege',
                message = format('the schema mqpg of this database is not of mqpg, and it is not empty: it has %s',
                    v_foreign.name),
                hint = 'Drop or rename that schema, or use another database.';
        end if;
        execute format('alter schema mqpg owner to %I', v_owner);
    end if;
    if to_regnamespace('mqpg_audit') is null then
        begin
            execute format('create schema mqpg_audit authorization %I', v_owner);
        exception when insufficient_privilege then
            raise exception using errcode = 'insufficient_privilege',
                message = format('%I may not create the schema mqpg_audit', v_me),
                hint = format('Let an administrator run: create schema mqpg_audit authorization %I;', v_owner);
        end;
    else
        select r.rolname, r.rolsuper, r.rolname = v_installed as ours into v_role
        from pg_namespace n inner join pg_roles r on r.oid = n.nspowner
        where n.nspname = 'mqpg_audit';
        if not v_role.rolsuper and v_role.rolname not in (v_owner, v_me) then
            raise exception using errcode = 'insufficient_privilege',
                message = format('the schema mqpg_audit of this database belongs to %I, so mqpg does not use it',
                    v_role.rolname),
                hint = format('Drop or rename that schema, or let %I own it.', v_owner);
        end if;
        if v_role.ours is not true then
            select coalesce(pg_describe_object(d.classid, d.objid, 0), '') as name into v_foreign
            from pg_depend d
            where d.refclassid = 'pg_namespace'::regclass and d.refobjid = to_regnamespace('mqpg_audit')
            limit 1;
            if found then
                raise exception using errcode = 'insufficient_privilege',
                    message = format('the schema mqpg_audit of this database is not of mqpg, and it is not empty: '
                        'it has %s', v_foreign.name),
                    hint = 'Drop or rename that schema, or use another database.';
            end if;
            execute format('alter schema mqpg_audit owner to %I', v_owner);
        end if;
    end if;
    -- PGMQ belongs to the owner too, where its SQL comes with mqpg. Where it is an extension or was
    -- there before, the owner gets its one queue there, and no more.
    if to_regnamespace('pgmq') is null then
        if exists (select from pg_available_extensions e where e.name = 'pgmq') then
            create extension pgmq;
        else
            execute format('create schema pgmq authorization %I', v_owner);
        end if;
    elsif v_installed is null then
        v_trusted := array(
            select r.oid from pg_roles r
            where r.rolsuper or r.rolname in (v_owner, v_me)
                or r.oid = (select e.extowner from pg_extension e where e.extname = 'pgmq'));
        select o.name, o.owner, o.verb into v_foreign
        from (
            select 'the schema pgmq' as name, n.nspowner as owner, 'belongs to' as verb, false as table_or_acl
            from pg_namespace n
            where n.nspname = 'pgmq'
            union all
            select format('the function %s', p.oid::regprocedure), p.proowner, 'belongs to', false from pg_proc p
            where p.pronamespace = to_regnamespace('pgmq') and not exists (
                select from pg_depend d
                where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
            union all
            select format('the table %s', c.oid::regclass), c.relowner, 'belongs to', true from pg_class c
            where c.relnamespace = to_regnamespace('pgmq') and c.relkind in ('r', 'p', 'v', 'm', 'f')
            union all
            select 'the schema pgmq', a.grantee, 'grants CREATE to', true
            from pg_namespace n cross join lateral aclexplode(n.nspacl) as a
            where n.nspname = 'pgmq' and a.privilege_type = 'CREATE'
        ) as o
        where o.owner <> all(v_trusted)
            and not (o.table_or_acl and exists (select from pg_extension e where e.extname = 'pgmq'))
        limit 1;
        if found then
            raise exception using errcode = 'insufficient_privilege',
                message = format('%s %s %s, so mqpg does not use it', v_foreign.name, v_foreign.verb,
                    case v_foreign.owner when 0 then 'PUBLIC' else pg_get_userbyid(v_foreign.owner) end),
                hint = format('mqpg would call the functions of that role. Install PGMQ as an extension, or let %s or '
                    'a superuser own it.', quote_ident(v_owner));
        end if;
    end if;
    if v_owner <> v_me and to_regclass('pgmq.meta') is not null
        and not pg_has_role(v_owner, (select c.relowner from pg_class c where c.oid = to_regclass('pgmq.meta')), 'usage')
    then
        if to_regclass('pgmq.q_mqpg_oplog') is null then
            perform pgmq.create(text 'mqpg_oplog');
        end if;
        execute format('grant usage, create on schema pgmq to %I', v_owner);
        execute format('grant all on all tables in schema pgmq to %I', v_owner);
        execute format('grant all on all sequences in schema pgmq to %I', v_owner);
        for v_queue in
            select c.oid::regclass from pg_class c
            where c.oid in (to_regclass('pgmq.q_mqpg_oplog'), to_regclass('pgmq.a_mqpg_oplog'))
                and not pg_has_role(v_owner, c.relowner, 'usage')
        loop
            execute format('alter table %s owner to %I', v_queue, v_owner);
        end loop;
    end if;
    if v_owner <> v_me then
        perform set_config('role', v_owner, true);
    end if;
    -- The path of the migrating role must not matter to what the migrations make.
    perform set_config('search_path', 'pg_catalog, pg_temp', true);
    comment on schema mqpg_audit is 'mqpg: views for auditors, with documented columns that do not change';
end
$mqpg$;

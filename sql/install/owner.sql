-- Runs before the migrations, in their transaction. It decides which role owns the schema, and
-- becomes that role, so that everything the migrations make belongs to it. The functions of mqpg
-- run with the rights of this role, so it must not be a superuser, and nobody logs in as it.
-- A schema that is installed keeps its owner. A new one belongs to the role that `mqpg migrate
-- --owner` names, else to mqpg_owner. The role is made where it is missing. Where the migrating role
-- may neither make it nor become it, the migrating role itself is the owner, unless --owner was
-- given.
-- Locks: those of its DDL.
-- Cost: runs once per migration.
-- Errors: 42501 (the migrating role may not do what is needed; the hint says what to run).
do $mqpg$
declare
    v_named text := nullif('/* mqpg: owner */', '');
    v_owner text := coalesce(v_named, 'mqpg_owner');
    v_me text := current_user;
    v_installed text;
    v_becoming text := case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end;
    v_queue regclass;
begin
    select r.rolname into v_installed
    from pg_namespace n inner join pg_roles r on r.oid = n.nspowner
    where n.nspname = 'mqpg' and exists (
        select from pg_class c where c.relnamespace = n.oid and c.relname = 'broker');
    if v_installed is not null then
        if v_named <> v_installed then
            raise exception using
                errcode = 'insufficient_privilege',
                message = format('the schema mqpg of this database belongs to %I, not to %I', v_installed, v_named),
                hint = 'Call mqpg migrate without --owner. The owner is chosen when the schema is installed.';
        end if;
        v_owner := v_installed;
    elsif not exists (select from pg_roles r where r.rolname = v_owner) then
        begin
            execute format('create role %I nologin', v_owner);
            execute format('comment on role %I is %L', v_owner, 'Owns the schema mqpg; nobody logs in as it');
        exception
            when duplicate_object or unique_violation then
                null;    -- another migration made it at the same time
            when insufficient_privilege then
                if v_named is not null then
                    raise exception using
                        errcode = 'insufficient_privilege',
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
                raise exception using
                    errcode = 'insufficient_privilege',
                    message = format('%I is not a member of %I, the owner of the schema mqpg', v_me, v_owner),
                    hint = format('Let an administrator run: grant %I to %I;', v_owner, v_me);
            end if;
            v_owner := v_me;
        end;
    end if;
    if v_installed is null and v_owner <> v_me
        and (select r.rolsuper from pg_roles r where r.rolname = v_owner) then
        raise exception using
            errcode = 'insufficient_privilege',
            message = format('the schema mqpg must not belong to the superuser %I', v_owner),
            hint = 'The functions of mqpg run with the rights of the owner. Name another role, or none.';
    end if;
    if to_regnamespace('mqpg') is null then
        execute format('create schema mqpg authorization %I', v_owner);
    elsif v_installed is null then
        execute format('alter schema mqpg owner to %I', v_owner);
    end if;
    -- PGMQ belongs to the owner too, where its SQL comes with mqpg. Where it is an extension or was
    -- there before, the owner gets its one queue there, and no more.
    if to_regnamespace('pgmq') is null then
        if exists (select from pg_available_extensions e where e.name = 'pgmq') then
            create extension pgmq;
        else
            execute format('create schema pgmq authorization %I', v_owner);
        end if;
    end if;
    if v_owner <> v_me and to_regclass('pgmq.meta') is not null
        and not pg_has_role(v_owner, (select c.relowner from pg_class c where c.oid = to_regclass('pgmq.meta')), 'usage')
    then
        if to_regclass('pgmq.q_mqpg_oplog') is null then
            perform pgmq.create('mqpg_oplog');
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
end
$mqpg$;

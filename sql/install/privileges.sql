-- Runs after the migrations, in their transaction and as the owner. PostgreSQL lets everybody
-- execute a new function, so this takes that right away, again after each migration. It also takes
-- away every privilege on the schemas mqpg and mqpg_audit themselves: a role that may create
-- objects there could put functions beside those of mqpg. Roles with a right then get the schemas,
-- and the functions and views of this version that belong to it. It raises if something in these
-- schemas belongs to another role.
-- Locks: those of its DDL. Cost: runs once per migration.
do $mqpg$
declare
    v_schema record;
    v_grantee record;
    v_role oid;
    v_foreign text;
begin
    select o.name into v_foreign
    from (
        select c.oid::regclass::text, c.relowner, c.relnamespace from pg_class c
        union all
        select p.oid::regprocedure::text, p.proowner, p.pronamespace from pg_proc p
    ) as o (name, owner, namespace)
    inner join pg_namespace n on n.oid = o.namespace
    where n.nspname in ('mqpg', 'mqpg_audit') and o.owner <> n.nspowner
        and (o.name, pg_get_userbyid(o.owner))    -- see asker.sql
            <> ('mqpg._call_checker(regprocedure,text,text,jsonb,json)', 'mqpg_asker')
    limit 1;
    if v_foreign is not null then
        raise exception using errcode = 'insufficient_privilege',
            message = format('%s does not belong to %I, the owner of the schema mqpg', v_foreign, current_user),
            hint = 'Drop it, or let the owner of the schema own it, and run mqpg migrate again.';
    end if;
    for v_grantee in
        select distinct n.nspname, r.rolname
        from pg_namespace n cross join lateral aclexplode(n.nspacl) as a inner join pg_roles r on r.oid = a.grantee
        where n.nspname in ('mqpg', 'mqpg_audit') and a.grantee <> n.nspowner
    loop
        execute format('revoke all on schema %I from %I cascade', v_grantee.nspname, v_grantee.rolname);
    end loop;
    for v_schema in
        select n.nspname from pg_namespace n
        where n.nspname in ('mqpg', 'mqpg_audit', 'pgmq') and n.nspowner = current_user::regrole
    loop
        execute format('revoke all on all routines in schema %I from public', v_schema.nspname);
        execute format('revoke all on schema %I from public, pg_monitor', v_schema.nspname);
        execute format('revoke all on all tables in schema %I from public, pg_monitor', v_schema.nspname);
        execute format('revoke all on all sequences in schema %I from public, pg_monitor', v_schema.nspname);
    end loop;
    -- PGMQ lets pg_monitor read its queues. Ours holds handles, which are secrets.
    if (select n.nspowner = current_user::regrole from pg_namespace n where n.nspname = 'pgmq') then
        alter default privileges in schema pgmq revoke select on tables from pg_monitor;
        alter default privileges in schema pgmq revoke select on sequences from pg_monitor;
    end if;
    revoke all on pgmq.q_mqpg_oplog, pgmq.a_mqpg_oplog from public, pg_monitor;
    -- A role that can log in may own other functions, which are not mqpg's concern.
    if not (select r.rolcanlogin from pg_roles r where r.rolname = current_user) then
        alter default privileges revoke execute on functions from public;
    end if;
    for v_role in
        select distinct r.oid from mqpg.role_right i inner join pg_roles r on r.oid = i.role::oid
    loop
        perform mqpg._sync_privileges(v_role);
    end loop;
end
$mqpg$;

-- Runs after the migrations, in their transaction and as the owner. PostgreSQL lets everybody
-- execute a new function, so this takes that right away, again after each migration. What roles
-- were granted by name stays.
-- Locks: those of its DDL.
-- Cost: runs once per migration.
do $mqpg$
declare
    v_schema record;
begin
    for v_schema in
        select n.nspname from pg_namespace n
        where n.nspname in ('mqpg', 'pgmq') and n.nspowner = current_user::regrole
    loop
        execute format('revoke all on all functions in schema %I from public', v_schema.nspname);
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
end
$mqpg$;

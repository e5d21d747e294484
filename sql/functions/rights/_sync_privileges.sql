-- Gives a role exactly the privileges of PostgreSQL that its rights need: USAGE on the schema,
-- EXECUTE on the entry points of each right, and SELECT on the views for operators, auditors and
-- workers. Only auditors get the schema mqpg_audit. It takes away the others. No role gets a
-- privilege on a table.
-- Locks: those of GRANT and REVOKE.
-- Cost: one look at the catalog, and one command for each privilege that changes.
create function mqpg._sync_privileges(role oid) returns void
language plpgsql as $$
declare
    v_name text := quote_ident(pg_get_userbyid(_sync_privileges.role));
    v_rights text [] := array(
        select distinct r.privilege from mqpg.role_right r where r.role::oid = _sync_privileges.role);
    v_change record;
begin
    if _sync_privileges.role = current_user::regrole then
        return;    -- the owner needs no grant
    end if;
    if v_rights <> '{}' then
        v_rights := v_rights || text 'client';
        execute format('grant usage on schema mqpg to %s', v_name);
    end if;
    for v_change in
        select case when o.needed then 'grant' else 'revoke' end as verb, o.what,
            case when o.needed then 'to' else 'from' end as direction
        from (
            select format('execute on routine %s', p.oid::regprocedure) as what,
                string_to_array(e.used_by, ' ') && v_rights as needed, p.proacl as acl
            from mqpg._entry_points() e
            join pg_proc p on p.proname = e.name and p.pronamespace = 'mqpg'::regnamespace
            union all
            select format('select on %s', c.oid::regclass),
                v_rights && case
                    when starts_with(c.relname, 'audit_') then array['auditor'] else array['operator', 'auditor', 'worker'] end,
                c.relacl
            from pg_class c
            where c.relnamespace = 'mqpg'::regnamespace and c.relkind = 'v'
            union all
            select 'usage on schema mqpg_audit', 'auditor' = any(v_rights), n.nspacl
            from pg_namespace n
            where n.nspname = 'mqpg_audit'
            union all
            select format('select on %s', c.oid::regclass), 'auditor' = any(v_rights), c.relacl
            from pg_class c
            where c.relnamespace = to_regnamespace('mqpg_audit') and c.relkind = 'v'
        ) as o
        where o.needed <> exists (select from aclexplode(o.acl) a where a.grantee = _sync_privileges.role)
    loop
        execute format('%s %s %s %s', v_change.verb, v_change.what, v_change.direction, v_name);
    end loop;
    if v_rights = '{}' then
        execute format('revoke usage on schema mqpg from %s', v_name);
    end if;
end
$$;

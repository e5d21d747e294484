-- Runs before anything else of a migration, also before a function of the schema mqpg is called.
-- Every role that may create schemas in the database can make a schema mqpg with functions of its
-- own, and the migrating role would call them. So it raises unless the schema belongs to the
-- migrating role, to a superuser or to the role that --owner names, or to one that nobody logs in
-- as: to mqpg_owner, to a role that the migrating role is a member of, or to one without members
-- that could have made it. The schema that was looked at is noted until the end of the transaction,
-- and owner.sql refuses another one.
-- Locks: none. Cost: one look at the roles.
do $mqpg$
declare
    v_named text := nullif('/* mqpg: role */', '');
    v_schema record;
begin
    select n.oid, r.oid as owner, r.rolname, r.rolsuper, r.rolcanlogin into v_schema
    from pg_namespace n inner join pg_roles r on r.oid = n.nspowner
    where n.nspname = 'mqpg';
    perform set_config('mqpg.trusted_schema', coalesce(v_schema.oid::text, ''), true);
    if v_schema.oid is null or v_schema.rolsuper or v_schema.rolname in (current_user, v_named) then
        return;
    end if;
    if not v_schema.rolcanlogin and (
        v_schema.rolname = 'mqpg_owner'
        or (not (select m.rolsuper from pg_roles m where m.rolname = current_user)
            and pg_has_role(current_user, v_schema.owner, 'member'))
        or not exists (
            select from pg_roles m
            where not m.rolsuper and m.rolname not in (current_user, v_schema.rolname)
                and pg_has_role(m.oid, v_schema.owner, 'member'))) then
        return;
    end if;
    raise exception using errcode = 'insufficient_privilege',
        message = format('the schema mqpg of this database belongs to %I, whose functions %I would call',
            v_schema.rolname, current_user),
        hint = format('If you trust that role and installed mqpg as it: mqpg migrate --owner %s. Otherwise drop the '
            'schema.', quote_ident(v_schema.rolname));
end
$mqpg$;

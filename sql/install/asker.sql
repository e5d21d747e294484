-- Runs after privileges.sql, in its transaction. It gives the function that calls checker functions
-- to the role mqpg_asker, which has no right anywhere. ALTER FUNCTION takes no lock, so an author
-- who takes SECURITY DEFINER away at the moment of the call wins now and then. The function then
-- runs as mqpg_asker, and not as the owner of the schema.
-- The role is made if it is missing. If the migrating role may not do that, checker functions are
-- not called, and half_pending says so. It raises if mqpg_asker can log in, is a superuser or has
-- members that can log in.
-- Locks: those of its DDL. Cost: runs once per migration.
do $mqpg$
declare
    v_owner text := current_user;
    v_role text := current_setting('role');
    v_becoming text := case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end;
    v_member text;
    v_call regprocedure := 'mqpg._call_checker(regprocedure, text, text, jsonb, json)';
begin
    begin
        perform set_config('role', 'none', true);    -- the migrating role, which may make roles
        if to_regrole('mqpg_asker') is null then
            create role mqpg_asker nologin;
            comment on role mqpg_asker is 'Calls the checker functions of mqpg; has no rights, and nobody logs in as it';
        end if;
        if not pg_has_role(v_owner, 'mqpg_asker', v_becoming) then
            execute format('grant mqpg_asker to %I', v_owner);
        end if;
    exception
        when insufficient_privilege then
            null;
        when duplicate_object or unique_violation then
            null;    -- another migration made it at the same time
    end;
    perform set_config('role', v_role, true);
    if to_regrole('mqpg_asker') is null or not pg_has_role(v_owner, 'mqpg_asker', v_becoming) then
        return;
    end if;
    if exists (select from pg_roles r where r.rolname = 'mqpg_asker' and (r.rolcanlogin or r.rolsuper)) then
        raise exception using errcode = 'insufficient_privilege',
            message = 'the role mqpg_asker must have no right, and must not be able to log in',
            hint = 'Let an administrator run: alter role mqpg_asker nologin nosuperuser;';
    end if;
    -- A member could alter the function that the owner of the schema calls.
    select r.rolname into v_member
    from pg_auth_members m inner join pg_roles r on r.oid = m.member
    where m.roleid = to_regrole('mqpg_asker') and r.rolcanlogin and not (r.rolsuper or r.rolcreaterole)
        and r.rolname not in (session_user, v_owner)
    limit 1;
    if v_member is not null then
        raise exception using errcode = 'insufficient_privilege',
            message = format('role %I is a member of mqpg_asker, which must have none that can log in', v_member),
            hint = format('Let an administrator run: revoke mqpg_asker from %I;', v_member);
    end if;
    if pg_get_userbyid((select p.proowner from pg_proc p where p.oid = v_call)) <> 'mqpg_asker' then
        grant create on schema mqpg to mqpg_asker;
        execute format('alter function %s owner to mqpg_asker', v_call);
        revoke create on schema mqpg from mqpg_asker;
    end if;
end
$mqpg$;

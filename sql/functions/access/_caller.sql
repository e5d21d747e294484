-- The role that calls: the one that SET ROLE chose, or else the one of the session. Inside a
-- function that is SECURITY DEFINER, current_user is the owner of the schema, so mqpg never asks
-- for it. Two things follow. Where an application's own SECURITY DEFINER function calls mqpg, the
-- caller is the application's role, not the owner of its function. And SET SESSION AUTHORIZATION
-- changes the caller as a login would.
-- Locks: none. Cost: negligible; the planner puts it in place of the call.
create function mqpg._caller() returns name
language sql stable as $$
    select case current_setting('role') when 'none' then session_user else current_setting('role')::name end
$$;
comment on function mqpg._caller() is 'Internal: the role of the caller, never the owner';

-- The role that calls: the one that SET ROLE chose, or else the one of the session. Inside a
-- function that is SECURITY DEFINER, current_user is the owner of the schema, so mqpg never asks
-- for it. If an application's own SECURITY DEFINER function calls mqpg, the caller is the
-- application's role, not the owner of its function.
-- A checker function is somebody else's code in the compensator's session, so it may not call mqpg.
-- It is recognized by a transaction that has written and then became read-only, which
-- _ask_function() makes and which nothing in it can undo. The maintenance of a table may not call
-- mqpg either; see _is_direct().
-- Locks: none. Cost: negligible; the planner puts it in place of the call.
create function mqpg._caller() returns name
language sql volatile as $$
    select case
        when current_setting('transaction_read_only') = 'on' and pg_current_xact_id_if_assigned() is not null
            then mqpg._refuse_checker()
        when not mqpg._is_direct() then null
        when current_setting('role') = 'none' then session_user
        else current_setting('role')::name
    end
$$;

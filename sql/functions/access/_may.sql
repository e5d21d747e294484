-- Whether the caller may use what these roles may use: senders, readers, receivers or producers of
-- a row that the calling function reads anyway. False also means that the note may be out of date,
-- as it is in a new topic and after a restore: the caller then asks _has_right().
-- It is for functions that write. It does not ask _caller(), which raises in a checker function, so
-- a function that only reads calls _is_among().
-- The expression is kept small, because PostgreSQL prepares each of its parts again in every
-- transaction, also those that are never computed.
-- Locks: none. Cost: negligible; the planner puts it in place of the call, and in a condition of
-- plpgsql no query is run.
create function mqpg._may(grantees mqpg.grantee []) returns boolean
language sql volatile as $$
    select case
        when current_setting('role') = 'none' and (
            pg_has_role(session_user, current_user, 'usage')
            or pg_get_userbyid((_may.grantees[1]).role) = (_may.grantees[1]).name
            and pg_has_role(session_user, (_may.grantees[1]).role, 'usage')) then mqpg._is_direct()
        else mqpg._is_among(_may.grantees)
    end
$$;

-- The same for two rows, of which the caller needs the rights to both.
create function mqpg._may(grantees mqpg.grantee [], others mqpg.grantee []) returns boolean
language sql volatile as $$
    select case
        when current_setting('role') = 'none' and (
            pg_has_role(session_user, current_user, 'usage')
            or pg_get_userbyid((_may.grantees[1]).role) = (_may.grantees[1]).name
            and pg_has_role(session_user, (_may.grantees[1]).role, 'usage')
            and pg_get_userbyid((_may.others[1]).role) = (_may.others[1]).name
            and pg_has_role(session_user, (_may.others[1]).role, 'usage')) then mqpg._is_direct()
        else mqpg._is_among(_may.grantees) and mqpg._is_among(_may.others)
    end
$$;

-- Whether the caller may use what these roles may use: senders, readers, receivers or producers of
-- a row that the calling function reads anyway. False also means that the note may be out of date,
-- as it is in a new topic and after a restore: the caller then asks _has_right().
-- It is for functions that write. It does not ask _caller(), which raises in a checker function, so
-- a function that only reads calls _is_among().
-- PostgreSQL prepares each part of an expression again in every transaction, also those that are
-- never computed. So each question is a statement of its own, and UNLISTEN is what _is_direct()
-- does.
-- Locks: none. Cost: a call.
create function mqpg._may(grantees mqpg.grantee []) returns boolean
language plpgsql as $$
begin
    if current_setting('role') <> 'none' then
        return mqpg._is_among(_may.grantees);
    end if;
    if pg_has_role(session_user, current_user, 'usage') then
        unlisten mqpg_none;
        return true;
    end if;
    if pg_get_userbyid((_may.grantees[1]).role) = (_may.grantees[1]).name
        and pg_has_role(session_user, (_may.grantees[1]).role, 'usage') then
        unlisten mqpg_none;
        return true;
    end if;
    return mqpg._is_among(_may.grantees);
end
$$;

-- The same for two rows, of which the caller needs the rights to both.
create function mqpg._may(grantees mqpg.grantee [], others mqpg.grantee []) returns boolean
language plpgsql as $$
begin
    if current_setting('role') = 'none' and pg_has_role(session_user, current_user, 'usage') then
        unlisten mqpg_none;
        return true;
    end if;
    return mqpg._may(_may.grantees) and mqpg._may(_may.others);
end
$$;

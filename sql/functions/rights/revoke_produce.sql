-- Takes a right of grant_produce() back. A right that was granted with '*' is only taken with '*'.
-- Arguments:
--   producer_group: name of the group; '*' for all groups, also later ones.
--   role: name of the role, exactly as it is written. Its members have the right too, unless they
--       are NOINHERIT.
-- Returns: whether the role had this right; false also when the call is repeated.
-- Locks: role_right against other grants, waited for up to the setting lock_timeout; the rows that
-- note the right; those of REVOKE.
-- Cost: a few rows, and one command for each privilege that changes.
-- Errors: MQ001 (null, unknown role), MQ002 (name), MQ004 (unknown group), MQ015 (not READ
-- COMMITTED), MQ025 (the caller is no operator), 55P03.
--
-- Example:
--     select mqpg.revoke_produce('shop', 'app');
create function mqpg.revoke_produce(producer_group text, role text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_may boolean := mqpg._require_privilege('operator');
    v_object int := case
        when revoke_produce.producer_group is distinct from '*' then (mqpg._producer_group(revoke_produce.producer_group)).producer_group_id
    end;
begin
    return mqpg._revoke(revoke_produce.role, 'produce', producer_group_id => v_object);
end
$$;

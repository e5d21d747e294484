-- Gives a role the right to store half messages of a producer group, to decide them, and to
-- answer its check-backs. To store one it also needs the right to send to the topic.
-- Repeated it changes nothing. Whoever is not an operator is refused.
-- Arguments:
--   producer_group: name of the group; '*' for all groups, also later ones.
--   role: name of the role, exactly as it is written. Its members have the right too, unless they
--       are NOINHERIT.
-- Locks: role_right against other grants, waited for up to the setting lock_timeout; the rows that
-- note the right; those of GRANT.
-- Cost: a few rows, and one command for each privilege that changes.
-- Errors: MQ001 (null, unknown role), MQ002 (name), MQ004 (unknown group), MQ015 (not READ
-- COMMITTED), MQ025 (the caller is no operator), 55P03.
--
-- Example:
--     select mqpg.grant_produce('shop', 'app');
create function mqpg.grant_produce(producer_group text, role text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_may boolean := mqpg._require_privilege('operator');
    v_object int := case
        when grant_produce.producer_group is distinct from '*' then (mqpg._producer_group(grant_produce.producer_group)).producer_group_id
    end;
begin
    perform mqpg._grant(grant_produce.role, 'produce', producer_group_id => v_object);
end
$$;

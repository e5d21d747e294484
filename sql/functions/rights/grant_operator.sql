-- Gives a role the right to operate the broker: it creates, changes and drops topics, groups and
-- subscriptions, moves positions, decides parked half messages, redrives dead letters, reads the
-- views, and gives the rights to send, produce and receive. It does not read bodies unless it has
-- the right to receive too.
-- Repeated it changes nothing. Only the owner of the schema, its members and superusers may call
-- it.
-- Arguments:
--   role: name of the role, exactly as it is written. Its members have the right too, unless they
--       are NOINHERIT.
-- Locks: role_right against other grants, up to the setting lock_timeout; the rows that note the
-- right; those of GRANT.
-- Cost: a few rows, and one command for each privilege that changes.
-- Errors: MQ001 (null, unknown role), MQ015 (not READ COMMITTED), MQ025 (the caller is not the
-- owner), 55P03.
create function mqpg.grant_operator(role text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_owner();
    perform mqpg._grant(grant_operator.role, 'operator');
end
$$;

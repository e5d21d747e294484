-- Gives a role the right to send to a topic: send(), send_batch(), recall() of its delayed
-- messages, and prepare() together with the right of grant_produce(). Repeated it changes nothing.
-- Only operators may call it.
-- Arguments:
--   topic: name of the topic; '*' for all topics, also later ones.
--   role: name of the role, exactly as it is written. Its members have the right too, unless they
--       are NOINHERIT.
-- Locks: role_right against other grants, up to the setting lock_timeout; the rows that note the
-- right; those of GRANT.
-- Cost: a few rows, and one command for each privilege that changes.
-- Errors: MQ001 (null, unknown role), MQ002 (name), MQ003 (unknown topic), MQ015 (not READ
-- COMMITTED), MQ025 (the caller is no operator), 55P03.
--
-- Example:
--     select mqpg.grant_send('orders', 'app');
create function mqpg.grant_send(topic text, role text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator');
    perform mqpg._grant(grant_send.role, 'send', topic_id => case
        when grant_send.topic is distinct from '*' then (mqpg._topic(grant_send.topic)).topic_id
    end);
end
$$;

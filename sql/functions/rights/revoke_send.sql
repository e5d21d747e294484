-- Takes a right of grant_send() back. A right that was granted with '*' is only taken with '*'.
-- Arguments: as of grant_send().
-- Returns: whether the role had this right.
-- Locks, cost, errors: as of grant_send().
--
-- Example:
--     select mqpg.revoke_send('orders', 'app');
create function mqpg.revoke_send(topic text, role text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator');
    return mqpg._revoke(revoke_send.role, 'send', topic_id => case
        when revoke_send.topic is distinct from '*' then (mqpg._topic(revoke_send.topic)).topic_id
    end);
end
$$;

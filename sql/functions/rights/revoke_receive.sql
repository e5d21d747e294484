-- Takes a right of grant_receive() back. A right that was granted with '*' is only taken with '*'.
-- Arguments: as of grant_receive().
-- Returns: whether the role had this right.
-- Locks, cost, errors: as of grant_receive().
--
-- Example:
--     select mqpg.revoke_receive('billing', 'orders', 'billing_app');
create function mqpg.revoke_receive(consumer_group text, topic text, role text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_object record := mqpg._receive_object(revoke_receive.consumer_group, revoke_receive.topic);
begin
    return mqpg._revoke(revoke_receive.role, 'receive', topic_id => v_object.topic_id,
        subscription_id => v_object.subscription_id, consumer_group => v_object.named_group);
end
$$;

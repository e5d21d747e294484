-- Gives a role the right to receive a topic for a consumer group: receive(), fetch(), ack() and
-- what goes with them, ready(), dead_letters(), and find_by_key() and trace() of the topic. Reading
-- a body needs this right.
-- Arguments:
--   consumer_group: name of a group that reads the topic; '*' for all groups, also later ones.
--   topic: name of the topic; '*' for all topics that the group reads, also later ones.
--   role: name of the role, exactly as it is written. Its members have the right too, unless they
--       are NOINHERIT.
-- Locks, cost: as of grant_send().
-- Errors: MQ005 (not subscribed), and those of grant_send().
--
-- Example:
--     select mqpg.grant_receive('billing', 'orders', 'billing_app');
create function mqpg.grant_receive(consumer_group text, topic text, role text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_object record := mqpg._receive_object(grant_receive.consumer_group, grant_receive.topic);
begin
    perform mqpg._grant(grant_receive.role, 'receive', topic_id => v_object.topic_id,
        subscription_id => v_object.subscription_id, consumer_group => v_object.named_group);
end
$$;

-- Gives a role the right to store half messages of a producer group, to decide them, and to answer
-- its check-backs. To store one it also needs the right to send to the topic.
-- Arguments:
--   producer_group: name of the group; '*' for all groups, also later ones.
--   role: name of the role, exactly as it is written. Its members have the right too, unless they
--       are NOINHERIT.
-- Locks, cost: as of grant_send().
-- Errors: MQ004 (unknown group), and those of grant_send().
--
-- Example:
--     select mqpg.grant_produce('shop', 'app');
create function mqpg.grant_produce(producer_group text, role text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator');
    perform mqpg._grant(grant_produce.role, 'produce', producer_group_id => case
        when grant_produce.producer_group is distinct from '*' then (mqpg._producer_group(grant_produce.producer_group)).producer_group_id
    end);
end
$$;

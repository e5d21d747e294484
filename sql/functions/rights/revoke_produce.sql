-- Takes a right of grant_produce() back. A right that was granted with '*' is only taken with '*'.
-- Arguments: as of grant_produce().
-- Returns: whether the role had this right.
-- Locks, cost, errors: as of grant_produce().
--
-- Example:
--     select mqpg.revoke_produce('shop', 'app');
create function mqpg.revoke_produce(producer_group text, role text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator');
    return mqpg._revoke(revoke_produce.role, 'produce', producer_group_id => case
        when revoke_produce.producer_group is distinct from '*' then (mqpg._producer_group(revoke_produce.producer_group)).producer_group_id
    end);
end
$$;

-- Raises for a new subscription whose id does not fit into the keys of cursor locks. Each member of a
-- broadcast group uses an id, and dropped ones are not used again.
-- Locks: none. Cost: negligible.
-- Errors: MQ027.
create function mqpg._require_subscription_id(subscription_id int) returns void
language plpgsql immutable as $$
begin
    if _require_subscription_id.subscription_id > 2097150 then
        raise exception using errcode = 'MQ027',
            message = 'this broker has given out all 2097150 ids of subscriptions',
            hint = 'Each member of a broadcast group uses one: give consumers names that they keep over restarts. '
                'To go on, move to a new broker.';
    end if;
end
$$;

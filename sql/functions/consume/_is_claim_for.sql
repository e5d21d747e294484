-- Whether a claim in the retry lane of a pinned subscription has, or may have, messages for a
-- consumer: one that it holds itself, or one that waits for the owner of a queue (its key) and that
-- queue is the consumer's or has no owner.
-- Locks: none. Cost: at most one index lookup.
create function mqpg._is_claim_for(subscription_id int, claim mqpg.claim, consumer text) returns boolean
language sql volatile as $$
    select case
        when _is_claim_for.claim.epoch > 0 then _is_claim_for.claim.consumer = _is_claim_for.consumer
        when _is_claim_for.claim.key is null then true
        else coalesce((
            select k.owner from mqpg.cursor k
            where k.subscription_id = _is_claim_for.subscription_id
                and k.queue_id = _is_claim_for.claim.key::smallint
            order by k.version desc limit 1) = _is_claim_for.consumer, true)
    end
$$;

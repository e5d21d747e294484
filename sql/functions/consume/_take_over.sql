-- The claim of a range that another consumer has returned or kept too long, cut to `max_messages`.
-- Locks: none. Cost: negligible.
create function mqpg._take_over(claim mqpg.claim, max_messages int, lease interval, consumer text) returns mqpg.claim
language plpgsql volatile as $$
declare
    v_claim mqpg.claim := _take_over.claim;
begin
    v_claim.attempt := v_claim.attempt + 1;
    v_claim.lease_until := clock_timestamp() + _take_over.lease;
    v_claim.consumer := _take_over.consumer;
    v_claim.key := null;
    v_claim.to_offset := least(v_claim.to_offset, case
        when v_claim.picked is null then v_claim.from_offset + _take_over.max_messages
        else v_claim.picked[_take_over.max_messages] + 1
    end);
    return v_claim;
end
$$;

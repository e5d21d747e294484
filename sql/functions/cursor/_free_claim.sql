-- The claim as it is when its consumer has returned it: the next receive() gets its range. The
-- negative epoch matches no receipt. A claim that waits for its back-off stays as it is.
-- Locks: none. Cost: negligible.
create function mqpg._free_claim(claim mqpg.claim, last_version mqpg.cursor, attempt int) returns mqpg.claim
language plpgsql immutable as $$
declare
    v_claim mqpg.claim := _free_claim.claim;
begin
    if v_claim.epoch > 0 then
        v_claim.epoch := -(_free_claim.last_version).version - 1;
        v_claim.attempt := _free_claim.attempt;
        v_claim.lease_until := '-infinity';
        v_claim.consumer := null;
    end if;
    return v_claim;
end
$$;

-- The claim that holds an offset; null if none does.
-- Locks: none. Cost: linear in the claims.
create function mqpg._claim_of(claims mqpg.claim [], queue_offset bigint) returns mqpg.claim
language plpgsql immutable as $$
declare
    v_claim mqpg.claim;
begin
    foreach v_claim in array _claim_of.claims loop
        if _claim_of.queue_offset >= v_claim.from_offset and _claim_of.queue_offset < v_claim.to_offset
            and (v_claim.settled is null or _claim_of.queue_offset <> all(v_claim.settled))
            and (v_claim.picked is null or _claim_of.queue_offset = any(v_claim.picked)) then
            return v_claim;
        end if;
    end loop;
    return null;
end
$$;

-- Whether a claim of a queue is still running. A pinned queue is its owner's alone, so what its owner left
-- open under the same name is taken over without waiting for the lease.
-- Locks: none. Cost: linear in the claims.
create function mqpg._is_busy(claims mqpg.claim [], owner text) returns boolean
language plpgsql volatile as $$
declare
    v_claim mqpg.claim;
begin
    if _is_busy.owner is not null then
        return false;
    end if;
    foreach v_claim in array _is_busy.claims loop
        if v_claim.lease_until > clock_timestamp() then
            return true;
        end if;
    end loop;
    return false;
end
$$;
comment on function mqpg._is_busy(mqpg.claim [], text) is 'Internal: whether a claim of a queue is running';

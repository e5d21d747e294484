-- What remains of a claim when offsets leave it, because they are acknowledged or nacked. The
-- claim's ends move past offsets that left; the result is null if nothing remains. The claim's
-- bounds may have been moved inwards before.
-- Locks: none. Cost: linear in the offsets that left or were picked.
create function mqpg._shrink_claim(claim mqpg.claim, offsets bigint []) returns mqpg.claim
language plpgsql immutable as $$
declare
    v_claim mqpg.claim := _shrink_claim.claim;
    v_settled bigint [];
begin
    if v_claim.picked is not null then
        v_claim.picked := array(
            select p from unnest(v_claim.picked) p
            where p >= v_claim.from_offset and p < v_claim.to_offset
            except all select o from unnest(_shrink_claim.offsets) o
            order by 1);
        v_claim.from_offset := v_claim.picked[1];
        v_claim.to_offset := v_claim.picked[cardinality(v_claim.picked)] + 1;
        if v_claim.picked = '{}' then
            return null;
        elsif cardinality(v_claim.picked) = v_claim.to_offset - v_claim.from_offset then
            v_claim.picked := null;
        end if;
        return v_claim;
    end if;
    v_settled := coalesce(v_claim.settled, '{}') || _shrink_claim.offsets;
    while v_claim.from_offset < v_claim.to_offset and v_claim.from_offset = any(v_settled) loop
        v_claim.from_offset := v_claim.from_offset + 1;
    end loop;
    v_claim.settled := array(
        select s from unnest(v_settled) s
        where s >= v_claim.from_offset and s < v_claim.to_offset order by s);
    if v_claim.settled = '{}' then
        v_claim.settled := null;
    end if;
    return case when v_claim.from_offset < v_claim.to_offset then v_claim end;
end
$$;

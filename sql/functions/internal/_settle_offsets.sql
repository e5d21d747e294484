-- What is left of a claim when offsets of it are settled: its front moves over settled offsets, and it is
-- null when nothing is left.
-- Locks: none. Cost: linear in the offsets settled.
create function mqpg._settle_offsets(claim mqpg.claim, offsets bigint []) returns mqpg.claim
language plpgsql immutable as $$
declare
    v_claim mqpg.claim := _settle_offsets.claim;
    v_settled bigint [] := coalesce(v_claim.settled, '{}') || _settle_offsets.offsets;
begin
    while v_claim.from_offset < v_claim.to_offset and v_claim.from_offset = any(v_settled) loop
        v_claim.from_offset := v_claim.from_offset + 1;
    end loop;
    v_claim.settled := array(select s from unnest(v_settled) s where s >= v_claim.from_offset order by s);
    if v_claim.settled = '{}' then
        v_claim.settled := null;
    end if;
    return case when v_claim.from_offset < v_claim.to_offset then v_claim end;
end
$$;
comment on function mqpg._settle_offsets(mqpg.claim, bigint []) is 'Internal: a claim less settled offsets';

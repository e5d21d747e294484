-- Acknowledges a delivery, or its first part.
-- Arguments:
--   receipt: the receipt of the delivery.
--   through: acknowledge only the messages up to and including this offset, and keep the rest; null
--       (default): all.
-- Locks: the queue's cursor lock, waited for up to the setting lock_timeout.
-- Cost: one cursor version.
-- Errors: MQ001 (through is outside the delivery), MQ007 (malformed receipt), MQ008 (spent), MQ009
-- (stale), 55P03, 40001.
create function mqpg.ack(receipt text, through bigint default null) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v record;
    v_claim mqpg.claim;
    v_left mqpg.claim;
    v_receipt record;
    v_version bigint;
begin
    v := mqpg._open_claim(ack.receipt);
    if ack.through is not null then
        v_receipt := mqpg._parse_receipt(ack.receipt);
        if ack.through not between v_receipt.from_offset and v_receipt.to_offset - 1 then
            raise exception using errcode = 'MQ001', message = format(
                'through must be an offset of the delivery, %s to %s, not %s', v_receipt.from_offset,
                v_receipt.to_offset - 1, ack.through);
        end if;
        v_claim := v.claim;
        if ack.through < v_claim.from_offset then
            return;    -- already acknowledged
        end if;
        v_claim.from_offset := ack.through + 1;
        v_left := mqpg._shrink_claim(v_claim, '{}');
    end if;
    v_version := mqpg._write_cursor(
        v.last_version, 'a', (v.claim).epoch, (v.last_version).claimed, (v.last_version).owner,
        case when v_left.epoch is null then v.rest else v_left || v.rest end);
end
$$;
comment on function mqpg.ack(text, bigint) is 'Acknowledge a delivery, or its part up to an offset';

-- Acknowledges a delivery, its first part, or single messages of it.
-- Arguments:
--   receipt: the receipt of the delivery.
--   through: acknowledge only the messages up to and including this offset, and keep the rest; null
--       (default): all.
--   offsets: acknowledge only the messages at these offsets, in any order, and keep the rest, also
--       what lies before them; null (default): all. An offset that was acknowledged or nacked
--       before changes nothing.
-- Locks: the queue's cursor lock, waited for up to the setting lock_timeout.
-- Cost: one cursor version. Until the messages before it are done, each offset of `offsets` is kept
-- in every further version of the cursor.
-- Errors: MQ001 (through or an offset is outside the delivery, or both are given), MQ007 (malformed
-- receipt), MQ008 (spent), MQ009 (stale), 55P03, 40001.
create function mqpg.ack(receipt text, through bigint default null, offsets bigint [] default null) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v record;
    v_claim mqpg.claim;
    v_left mqpg.claim;
    v_version bigint;
    v_outside bigint;
    v_gone bigint [] := '{}';
begin
    if ack.offsets is not null and (
        ack.through is not null or array_ndims(ack.offsets) > 1 or array_position(ack.offsets, null) is not null) then
        raise exception using errcode = 'MQ001',
            message = 'offsets must be a one-dimensional array without null, and be given without through';
    end if;
    v := mqpg._open_claim(ack.receipt);
    if ack.through is not null or ack.offsets is not null then
        select o into v_outside from unnest(coalesce(ack.offsets, array[ack.through])) as o
        where o not between v.from_offset and v.to_offset - 1
        limit 1;
        if found then
            raise exception using errcode = 'MQ001', message = format(
                '%s must be of the delivery, offset %s to %s, not %s',
                case when ack.offsets is null then 'through' else 'offsets' end,
                v.from_offset, v.to_offset - 1, v_outside);
        end if;
        v_claim := v.claim;
        if ack.offsets is not null then
            v_gone := array(
                select distinct o from unnest(ack.offsets) as o
                where o between v_claim.from_offset and v_claim.to_offset - 1
                    and o <> all(coalesce(v_claim.settled, '{}'))
                    and o = any(coalesce(v_claim.picked, array[o])));
            if v_gone = '{}' then
                return;    -- already acknowledged
            end if;
        elsif ack.through < v_claim.from_offset then
            return;    -- already acknowledged
        else
            v_claim.from_offset := ack.through + 1;
        end if;
        v_left := mqpg._shrink_claim(v_claim, v_gone);
    end if;
    v_version := mqpg._write_cursor(
        v.last_version, 'a', (v.claim).epoch, (v.last_version).claimed, (v.last_version).owner,
        case when v_left.epoch is null then v.rest else v_left || v.rest end);
end
$$;
comment on function mqpg.ack(text, bigint, bigint []) is
    'Acknowledge a delivery, its part up to an offset, or single messages of it';

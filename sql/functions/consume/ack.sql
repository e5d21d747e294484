-- Acknowledges a delivery, its first part, or single messages of it. If nothing is left of it,
-- because all was acknowledged or nacked before, nothing changes.
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
-- receipt), MQ008 (released), MQ009 (stale), 55P03, 40001.
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
    v_id int;
    v_signed text;
    v_parts bigint [];
    v_subscription record;
    v_slot int;
    v_now timestamptz;
begin
    -- The usual case is a whole delivery whose claim is the only one of its queue. It passes the
    -- checks of _claim_of_receipt(), in the same order. Where one fails, the call continues below, which
    -- refuses the receipt or waits for the lock.
    if ack.through is null and ack.offsets is null then
        v_id := mqpg._receipt_subscription(ack.receipt);
        select s.receipt_secrets[1] as secret, s.receivers into v_subscription
        from mqpg.subscription s where s.subscription_id = v_id;
        v_signed := left(ack.receipt, -33);
        if v_signed || '.' || mqpg._receipt_mac(v_subscription.secret, v_signed) = ack.receipt
            and mqpg._may(v_subscription.receivers) then
            v_parts := string_to_array(v_signed, '.');
            if pg_try_advisory_xact_lock_shared(1836150843, v_id)
                and mqpg._lock_free_cursor(v_id, v_parts[2]::int) then
                -- An epoch says which version claimed; see _epoch(). If there is a newer one, its number
                -- is taken.
                v_now := clock_timestamp();    -- with a volatile function in it, the query would be a step of its own
                insert into mqpg.cursor (
                    subscription_id, queue_id, slot, version, committed, claimed, at, action, epoch, owner, claims)
                select v_id, k.queue_id, k.slot, k.version + 1, k.claimed, k.claimed, v_now,
                    mqpg._action('ack'), k.epoch, k.owner, '{}'
                from mqpg.cursor k
                where k.subscription_id = v_id and k.queue_id = v_parts[2]::smallint
                    and k.version = v_parts[3] / 1048576 and k.epoch = v_parts[3] and cardinality(k.claims) = 1
                    -- A receipt from before a ROLLBACK TO SAVEPOINT has the same epoch.
                    and k.claims[1].from_offset = v_parts[4] and k.claims[1].to_offset = v_parts[5]
                on conflict do nothing
                returning slot into v_slot;
                if found then
                    if mqpg._has_newer_slot(v_slot) then
                        perform mqpg._copy_own_cursor(v_id, v_parts[2]::int, v_slot);
                    end if;
                    return;
                end if;
            end if;
        end if;
    end if;
    if ack.offsets is not null and (
        ack.through is not null or array_ndims(ack.offsets) > 1 or array_position(ack.offsets, null) is not null) then
        raise exception using errcode = 'MQ001',
            message = 'offsets must be a one-dimensional array without null, and be given without through';
    end if;
    v := mqpg._claim_of_receipt(ack.receipt, may_be_done => true);
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
    end if;
    if (v.claim).epoch is null then
        return;    -- nothing is left of it
    end if;
    if ack.through is not null or ack.offsets is not null then
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
        v.last_version, mqpg._action('ack'), (v.claim).epoch, (v.last_version).claimed, (v.last_version).owner,
        case when v_left.epoch is null then v.rest else v_left || v.rest end);
end
$$;

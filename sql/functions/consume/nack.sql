-- Returns messages of a delivery as failed. Each is delivered again later, or becomes a dead letter
-- when its attempts are used up. The receipt stays open for the rest.
-- With on_failure `skip`, and always in the retry lane, a message goes to the subscription's retry
-- lane. With `block_key` and `block_queue` it is retried at its place, and the messages behind it
-- wait.
-- Arguments:
--   receipt: the receipt of the delivery.
--   message_ids: the messages that failed; an empty array does nothing.
--   reason: why, for the dead letter and trace(); default null.
--   delay: how long until the next attempt; null (default): the subscription's retry_delay, doubled
--       with each attempt, up to the setting retry_delay_cap.
--   final: true makes each a dead letter at once, however many attempts are left, and nothing waits
--       for it; default false.
-- Locks: the queue's cursor lock, and for dead letters the subscription's row, each waited for up
-- to the setting lock_timeout.
-- Cost: one row per message and one cursor version.
-- Errors: MQ001 (argument, or a message that is not in the delivery), MQ007 (malformed receipt),
-- MQ008 (nothing of the delivery is left), MQ009 (stale), 55P03, 40001.
create function mqpg.nack(
    receipt text, message_ids bigint [], reason text default null, delay interval default null,
    final boolean default false
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v record;
    v_subscription mqpg.subscription;
    v_lane_of int;          -- the subscription whose retry lane the queue is; 0: it is the topic's
    v_failed record;        -- the messages that failed, as arrays of equal length
    v_retried_at bigint [] := '{}';
    v_left record;
    v_unknown bigint;
begin
    if array_ndims(nack.message_ids) > 1 then
        raise exception using errcode = 'MQ001', message = 'message_ids must be a one-dimensional array';
    end if;
    if nack.message_ids is null or array_position(nack.message_ids, null) is not null then
        raise exception using errcode = 'MQ001', message = 'message_ids must not be null or contain null';
    end if;
    if nack.delay is not null then
        perform mqpg._require_interval('delay', nack.delay, '0');
    end if;
    if nack.final is null then
        raise exception using errcode = 'MQ001', message = 'final must be true or false, not null';
    end if;
    select o.* into v from mqpg._claim_of_receipt(nack.receipt) o;
    v_subscription := v.subscription;
    if nack.final then
        v_subscription.max_attempts := 1;
    end if;
    v_lane_of := case (v.last_version).queue_id when -1 then (v.subscription).subscription_id else 0 end;
    select array_agg(m.message_id) as ids, array_agg(m.deliver_id) as bodies, array_agg(m.attempt) as attempts,
        coalesce(array_agg(m.queue_offset), '{}') as offsets
    into v_failed
    from mqpg._claimed_messages((v.subscription).topic_id, (v.last_version).queue_id, v_lane_of, v.claim) m
    where m.message_id = any(nack.message_ids);
    -- It is also true if a message is named twice.
    if cardinality(v_failed.offsets) < cardinality(nack.message_ids) then
        select u.id into v_unknown from unnest(nack.message_ids) as u(id)
        where (u.id = any(v_failed.ids)) is not true
        limit 1;
        if found then
            raise exception using errcode = 'MQ001',
                message = format('message_ids must be in the delivery; %s is not, or no longer', v_unknown);
        end if;
    end if;
    if nack.message_ids = '{}' then
        return;
    end if;
    if v_lane_of <> 0 or (v.claim).attempt >= v_subscription.max_attempts then
        -- Dead letters may be written, and they must not outlive the subscription.
        perform mqpg._require_subscribed(v_subscription, nack.receipt);
    end if;
    if (v.subscription).on_failure <> 'skip' and v_lane_of = 0 then
        select h.* into v_left from mqpg._block_failed(
            v_subscription, v.last_version, v.claim, nack.message_ids, nack.reason, nack.delay, nack.final) h;
        v.rest := v_left.waiting || v.rest;
    else
        for v_nth in 1..cardinality(v_failed.offsets) loop
            v_retried_at := v_retried_at || (1000000 * extract(epoch from mqpg._retry_or_bury(
                v_subscription, v_failed.ids[v_nth], v_failed.bodies[v_nth], v_failed.attempts[v_nth], nack.reason,
                nack.delay, (v.claim).consumer)))::bigint;
        end loop;
        select mqpg._shrink_claim(v.claim, v_failed.offsets) as left_over, null::bigint [] as failed into v_left;
    end if;
    perform mqpg._write_cursor(
        v.last_version, mqpg._action('nack'), (v.claim).epoch, (v.last_version).claimed, (v.last_version).owner,
        case when (v_left.left_over).epoch is null then v.rest else v_left.left_over || v.rest end,
        v_left.failed, case when v_left.failed is not null then nack.reason else v_retried_at::text end);
end
$$;

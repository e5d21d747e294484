-- Claims messages of one queue, or of the subscription's retry lane, for a lease and returns them.
-- It returns nothing when there is nothing to deliver, or when the topic or subscription is paused.
-- It picks the queue that waited longest, and there first what a lease that ran out left behind. It
-- skips a queue that another consumer has locked, and does not wait for it. Only in mode shared,
-- where many consumers share a queue, it waits up to 20 ms for one when all others are empty. It
-- also waits for keep() where that copies cursors, which takes milliseconds. Messages that the
-- subscription's filter does not choose are skipped and count as consumed. It passes these, and
-- what has expired, no longer than the setting filter_time and in at most 250 queues, and then
-- returns nothing. Where it returns nothing because a session that does nothing in mqpg holds a
-- lock of the queue or of the subscription, it raises a warning within seconds of polling.
-- In one transaction with ack() the claim belongs to the transaction (C1), and a rollback returns
-- it at once.
-- Modes: exclusive: a queue with an open claim gives nothing to any consumer. shared: up to 64
-- claims of a queue are open at once. pinned: a queue stays with the consumer that first received
-- from it until unpin(), whatever the lease. broadcast: each consumer name has its own position,
-- from its first receive on.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   max_messages: return at most so many, 1 to 10000; default 100. `limit` in the query hides messages
--       that are claimed all the same, and that ack() acknowledges.
--   lease: how long the messages stay with this consumer, 10 ms to 100 years; default 30 s.
--   consumer: name of the consumer; required in the modes pinned and broadcast; default null.
--   queue_id: receive from this queue only, -1 being the retry lane; null (default): any.
--   ack: the receipt of a delivery of this subscription, which the call acknowledges as ack() does
--       before it looks for messages, also where it returns none; null (default): none. Where the
--       receipt is refused, nothing is claimed. Queues that waited longer than its queue come
--       first. Where the next messages are of its queue and fresh, one cursor version does both.
-- Locks: the queue's advisory lock, and the subscription's, shared, until the end of the
-- transaction; with `ack` also that of the receipt's queue, waited for as in ack().
-- Cost: a look at each queue's cursor, and at the ends of the queues that waited longer than the
-- chosen one (1000 empty queues: 4 ms); one cursor version, and the messages; with a filter also
-- the messages that it does not choose; with `ack` of another queue a cursor version.
-- Errors: MQ001 (argument, or a receipt of another subscription), MQ003 (unknown topic), MQ005
-- (unknown subscription), MQ007, MQ008, MQ009 (receipt, as in ack()), MQ014 (a body is missing),
-- MQ027 (no id is left for a new member), 55P03 (ack), 40001 (a lost race).
--
-- Example:
--     begin;
--     select message_id, payload, receipt from mqpg.receive('billing', 'orders', 10);
--     -- use the messages, then:
--     select mqpg.ack('<receipt>');
--     commit;
create function mqpg.receive(
    consumer_group text, topic text, max_messages int default 100, lease interval default '30 s',
    consumer text default null, queue_id int default null, ack text default null
) returns setof mqpg.delivery
language plpgsql security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_topic mqpg.topic;
    v_subscription mqpg.subscription;
    v_paused boolean;
    v_acked mqpg.cursor;
    v_version bigint;
    v_next record;
    v_claim mqpg.claim;
    v_attempt int;          -- of the only run
    v_batch bigint;         -- where its bodies are
    v_first int;
    v_last int;
    v_runs record;
    v_receipt text;
    v_count int;            -- how many messages the claim has
    v_rows int;             -- how many were returned
begin
    -- 1. The subscription that receives, and whether the caller may.
    select t.* into v_topic from mqpg.topic t where t.name = receive.topic;
    select s.* into v_subscription from mqpg.subscription s
    where s.topic_id = v_topic.topic_id and s.consumer_group = receive.consumer_group and s.member = '';
    if not found or not mqpg._may(v_subscription.receivers) then
        v_subscription := mqpg._require_subscription(receive.consumer_group, receive.topic);
    end if;
    -- These conditions hold for most calls, which are spared the function.
    if (receive.max_messages between 1 and 10000 and receive.lease between interval '10 milliseconds'
        and interval '12 hours'
        and receive.consumer is null and receive.queue_id is null and v_subscription.mode in ('exclusive', 'shared'))
        is not true then
        perform mqpg._require_receive_arguments(
            v_subscription, v_topic.queues, receive.max_messages, receive.lease, receive.consumer, receive.queue_id);
        receive.lease := mqpg._seconds(receive.lease);
    end if;
    if v_subscription.paused or v_topic.paused then
        if receive.ack is null then
            return;
        end if;
        v_paused := true;
    end if;
    if v_subscription.mode = 'broadcast' then
        v_subscription := mqpg._member(v_subscription, v_topic.queues, receive.consumer);
    end if;

    -- 2. The delivery that `ack` acknowledges: its cursor without that claim. It is not written yet,
    -- because one version can have both changes if the next messages are of the same queue.
    if receive.ack is not null then
        v_acked := mqpg._acked_cursor(receive.ack, v_subscription);
        if v_paused then
            if v_acked.version is not null then
                v_version := mqpg._write_ack(v_acked);
            end if;
            return;
        end if;
    end if;

    -- 3. A queue and a claim of its next messages. This also writes what `ack` changed.
    v_next := mqpg._claim_next(
        v_subscription, v_topic, receive.queue_id, receive.max_messages, receive.lease, receive.consumer, v_acked);
    if v_next.queue_id is null then
        return;
    end if;

    -- 4. How many messages these are, and the receipt for them.
    v_claim := v_next.claim;
    v_count := v_claim.to_offset - v_claim.from_offset;
    if v_claim.picked is not null or v_claim.settled is not null then
        v_count := coalesce(
            cardinality(v_claim.picked), v_count - coalesce(cardinality(v_claim.settled), 0));
    end if;
    v_receipt := concat_ws(
        '.', v_subscription.subscription_id, v_next.queue_id, v_claim.epoch, v_claim.from_offset, v_claim.to_offset);
    v_receipt := mqpg._receipt(v_subscription.receipt_secrets[1], v_receipt);

    -- 5. Their bodies. Four queries give the same rows, and each is the cheapest one in its case.
    -- Their arguments are variables, because the planner puts the queries in place of the calls,
    -- where an expression would be computed for each row.
    -- One run, all of it: what a call finds behind larger sends.
    if v_next.run_id is not null and v_count = v_claim.to_offset - v_claim.from_offset then
        v_attempt := coalesce(v_next.run_attempt, 1) + v_claim.attempt - 1;
        v_batch := v_next.run_body / 1024;
        v_first := v_next.run_body % 1024 + 1;
        v_last := v_first + v_count - 1;
        return query
        select d.* from mqpg._deliveries_of_run(
            v_topic.name, v_next.queue_id, v_attempt, v_receipt, v_next.run_id, v_batch, v_first, v_last,
            v_claim.from_offset) as d;
        get diagnostics v_rows = row_count;
        if v_rows = v_count then
            return;
        end if;
    end if;
    -- Otherwise, or if that record batch is gone because its segment was dropped: the runs of ids
    -- without gaps.
    if v_rows is null or v_rows = 0 then
        v_runs := mqpg._runs(
            v_topic.topic_id, v_next.queue_id,
            case v_next.queue_id when -1 then v_subscription.subscription_id else 0 end,
            v_claim.from_offset, v_claim.to_offset);
        if v_claim.picked is not null then
            v_runs := mqpg._matching_runs(
                v_claim.picked, v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.attempts,
                v_runs.lowest, v_runs.highest);
        end if;
        -- keep() has copied some of these messages into `held`.
        if exists (
            select from mqpg.held h
            where h.message_id >= v_runs.lowest * 1024 and h.message_id < v_runs.highest * 1024 + 1024
        ) then
            return query
            select d.* from mqpg._deliveries_with_survivors(
                v_topic.name, v_next.queue_id, v_claim.attempt, v_receipt, v_claim.settled, v_claim.picked,
                v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.attempts, v_runs.lowest,
                v_runs.highest) as d;
        -- Each run is one message, as behind single sends.
        elsif cardinality(v_runs.ids) = v_count and v_count = v_claim.to_offset - v_claim.from_offset then
            return query
            select d.* from mqpg._deliveries_singly(
                v_topic.name, v_next.queue_id, v_claim.attempt, v_receipt, v_runs.ids, v_runs.bodies,
                v_runs.offsets, v_runs.attempts, v_runs.lowest, v_runs.highest) as d;
        -- Runs of several lengths, or with messages left out.
        else
            return query
            select d.* from mqpg._deliveries(
                v_topic.name, v_next.queue_id, v_claim.attempt, v_receipt, v_claim.settled, v_claim.picked,
                v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.attempts, v_runs.lowest,
                v_runs.highest) as d;
        end if;
        get diagnostics v_rows = row_count;
    end if;
    -- A message is never left out in silence.
    if v_rows <> v_count then
        perform mqpg._refuse_missing_body(
            v_topic.name, v_next.queue_id, v_claim.from_offset, v_claim.to_offset, v_rows);
    end if;
end
$$;

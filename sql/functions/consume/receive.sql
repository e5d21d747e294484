-- Claims messages of one queue, or of the subscription's retry lane, for a lease and returns them.
-- It returns nothing when there is nothing to deliver, or when the topic or subscription is paused.
-- It picks the queue that waited longest, and there first what a lease that ran out left behind. It
-- skips a queue that another consumer has locked, and does not wait for it. Only in mode shared,
-- where many consumers share a queue, it waits up to 20 ms for one when all others are empty. It
-- also waits for keep() where that copies cursors, which takes milliseconds. Messages that the
-- subscription's filter does not choose are skipped and count as consumed. Where it returns nothing
-- because a session that does nothing in mqpg holds a lock of the queue or of the subscription, it
-- raises a warning within seconds of polling.
-- In one transaction with ack() the claim belongs to the transaction (C1), and a rollback returns
-- it at once.
-- Modes: exclusive: a queue with an open claim gives nothing to any consumer. shared: up to 64
-- claims of a queue are open at once. pinned: a queue stays with the consumer that first received
-- from it until unpin(), whatever the lease. broadcast: each consumer name has its own position,
-- from its first receive on.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   max_messages: return at most so many, 1 to 10000; default 100.
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
-- 55P03 (ack), 40001 (a lost race).
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
    v_subscription mqpg.subscription;
    v_topic mqpg.topic;
    v_paused boolean;
    -- A cursor, because a loop over a query would read the ends of ten queues at once.
    c_waiting cursor (only_queue int, from_tick bigint, to_tick bigint, last_served int) for
        select q.* from mqpg._queues_with_messages(
            v_topic.topic_id, v_subscription.subscription_id, receive.consumer,
            coalesce(only_queue, -1), coalesce(only_queue, v_topic.queues - 1), from_tick, to_tick, last_served) as q;
    v_locked int;           -- the first queue that another call had locked
    v_only int;             -- shared: the queue that this call waits for
    v_shut boolean := false;    -- the lock of all queues was not free
    v_waits int := 0;
    v_from_tick bigint;     -- the ends of queues are in these ticks, or noted
    v_to_tick bigint := 9223372036854775807;
    v_cursor mqpg.cursor;
    v_claim mqpg.claim;
    v_runs record;
    v_receipt text;
    v_id bigint;            -- where one run holds the whole delivery
    v_body bigint;
    v_length int;
    v_attempt int;
    v_rows bigint;
    v_done record;          -- with `ack`: the claim that it ends
    v_done_cursor mqpg.cursor;  -- its cursor, its epoch, and the other claims of its queue
    v_done_epoch bigint;
    v_rest mqpg.claim [];
    v_open boolean := false;    -- no version says yet that this claim ended
    v_both boolean;         -- the version of the new claim says it
    v_version bigint;
begin
    select t.* into v_topic from mqpg.topic t where t.name = receive.topic;
    select s.* into v_subscription from mqpg.subscription s
    where s.topic_id = v_topic.topic_id and s.consumer_group = receive.consumer_group and s.member = '';
    if not found or not mqpg._may(v_subscription.receivers) then
        v_subscription := mqpg._require_subscription(receive.consumer_group, receive.topic);
    end if;
    -- This quick validation suffices for most calls and saves a function call.
    if (receive.max_messages between 1 and 10000 and receive.lease between interval '10 milliseconds'
        and interval '1 day'
        and receive.consumer is null and receive.queue_id is null and v_subscription.mode in ('exclusive', 'shared'))
        is not true then
        perform mqpg._require_receive_arguments(
            v_subscription, v_topic.queues, receive.max_messages, receive.lease, receive.consumer, receive.queue_id);
    end if;
    v_paused := v_subscription.paused or v_topic.paused;
    if v_paused and receive.ack is null then
        return;
    end if;
    if v_subscription.mode = 'broadcast' then
        v_subscription := mqpg._member(v_subscription, v_topic.queues, receive.consumer);
    end if;
    if receive.ack is not null then
        v_done := mqpg._open_claim(receive.ack);
        if (v_done.subscription).subscription_id is distinct from v_subscription.subscription_id then
            raise exception using errcode = 'MQ001', message = format(
                'ack must be a receipt of consumer group %L on topic %L%s', receive.consumer_group, receive.topic,
                case v_subscription.mode when 'broadcast' then format(' for consumer %L', receive.consumer) else '' end);
        end if;
        v_done_cursor := v_done.last_version;
        v_done_epoch := (v_done.claim).epoch;
        v_rest := v_done.rest;
        v_open := true;
    end if;
    loop
        exit when v_paused;
        v_from_tick := (
            select s.lower_bound::bigint from mqpg.segment s
            where s.family = 'tick' and s.tails_noted_at is null
            order by s.segment_no limit 1);
        if v_topic.queues > 16 then     -- it costs less to find the partitions that are still empty
            select t.tick_id into v_to_tick from mqpg.tick t
            where t.tick_id >= v_from_tick
            order by t.tick_id desc limit 1;
        end if;
        -- Look before taking the lock, because it is held until the end of the transaction.
        for v_waiting in c_waiting(
            coalesce(v_only, receive.queue_id), v_from_tick, v_to_tick, v_done_cursor.queue_id)
        loop
            if v_waiting.claims <> '{}' then
                if v_waiting.queue_id = v_done_cursor.queue_id then
                    v_waiting.claims := v_rest;
                end if;
                continue when case mqpg._next_claim(v_subscription, v_waiting.claims)
                    when -1 then true
                    when 0 then v_waiting.claimed >= v_waiting.tail
                    else false
                end;
            end if;
            if not pg_try_advisory_xact_lock(
                1836150833, v_subscription.subscription_id * 1024 + v_waiting.queue_id + 1) then
                if v_only is null then
                    v_locked := coalesce(v_locked, v_waiting.queue_id);
                    continue;
                end if;
                exit when not mqpg._try_lock_cursor(v_subscription.subscription_id, v_waiting.queue_id);
            end if;
            -- A purge or a seek of all queues has or waits for this one exclusively.
            v_shut := not pg_try_advisory_xact_lock_shared(1836150843, v_subscription.subscription_id);
            exit when v_shut;
            -- Only where the claim is of fresh messages, because every other one has a version that
            -- says what became of the claim before.
            v_both := v_open and v_waiting.queue_id = v_done_cursor.queue_id and v_waiting.lane = 0
                and v_waiting.claimed < v_waiting.tail
                and (v_rest = '{}' or (
                    v_subscription.mode = 'shared' and v_subscription.on_failure <> 'block_key'
                    and mqpg._next_claim(v_subscription, v_rest) = 0))
                and v_subscription.filter is null and v_subscription.tags is null
                and v_subscription.max_attempts > 1 and v_topic.message_ttl is null;
            if v_both then
                v_cursor := v_done_cursor;
                v_cursor.claims := v_rest;
            else
                if v_open then
                    v_version := mqpg._write_cursor(
                        v_done_cursor, 'a', v_done_epoch, v_done_cursor.claimed, v_done_cursor.owner, v_rest);
                    v_open := false;
                end if;
                -- A new statement, so that it sees the cursor as the lock's last holder left it.
                v_cursor := mqpg._cursor(v_subscription.subscription_id, v_waiting.queue_id);
                if v_topic.message_ttl is not null and v_waiting.lane = 0 then
                    v_cursor := mqpg._expire(v_topic, v_subscription, v_cursor);
                end if;
            end if;
            v_claim := mqpg._claim(
                v_subscription, v_cursor, receive.max_messages, receive.lease, receive.consumer, v_waiting.tail,
                v_both);
            continue when v_claim is null;
            v_open := false;
            v_runs := mqpg._runs(
                v_topic.topic_id, v_waiting.queue_id, v_waiting.lane, v_claim.from_offset, v_claim.to_offset);
            if v_claim.picked is not null then
                v_runs := mqpg._matching_runs(
                    v_claim.picked, v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.attempts,
                    v_runs.lowest, v_runs.highest);
            end if;
            -- A variable, because in the inlined query below an expression would be computed for
            -- each row.
            v_receipt := mqpg._receipt(v_subscription.receipt_secrets[1], v_subscription.subscription_id,
                v_waiting.queue_id, v_claim.epoch, v_claim.from_offset, v_claim.to_offset);
            if exists (
                select from mqpg.held h
                where h.message_id >= v_runs.lowest * 1024 and h.message_id < v_runs.highest * 1024 + 1024
            ) then
                return query
                select d.* from mqpg._deliveries_with_survivors(
                    v_topic.name, v_waiting.queue_id, v_claim.attempt, v_receipt, v_claim.settled, v_claim.picked,
                    v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.attempts, v_runs.lowest,
                    v_runs.highest) as d;
            elsif v_claim.settled is null and v_claim.picked is null and cardinality(v_runs.ids) = 1 then
                v_id := v_runs.ids[1];
                v_body := v_runs.bodies[1];
                v_length := v_runs.lengths[1];
                v_attempt := coalesce(v_runs.attempts[1], 1) + v_claim.attempt - 1;
                return query
                select d.* from mqpg._deliveries_of_run(
                    v_topic.name, v_waiting.queue_id, v_attempt, v_receipt, v_id, v_body, v_claim.from_offset,
                    v_length) as d;
            elsif v_claim.settled is null and v_claim.picked is null
                and cardinality(v_runs.ids) = v_claim.to_offset - v_claim.from_offset then
                return query
                select d.* from mqpg._deliveries_singly(
                    v_topic.name, v_waiting.queue_id, v_claim.attempt, v_receipt, v_runs.ids, v_runs.bodies,
                    v_runs.offsets, v_runs.attempts, v_runs.lowest, v_runs.highest) as d;
            else
                return query
                select d.* from mqpg._deliveries(
                    v_topic.name, v_waiting.queue_id, v_claim.attempt, v_receipt, v_claim.settled, v_claim.picked,
                    v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.attempts, v_runs.lowest,
                    v_runs.highest) as d;
            end if;
            get diagnostics v_rows = row_count;
            if v_rows <> coalesce(cardinality(v_claim.picked), v_claim.to_offset - v_claim.from_offset
                - coalesce(cardinality(v_claim.settled), 0)) then
                perform mqpg._missing_body(
                    v_topic.name, v_waiting.queue_id, v_claim.from_offset, v_claim.to_offset, v_rows);
            end if;
            return;
        end loop;
        exit when v_locked is null or v_only is not null;
        -- keep() must not hide messages, so this call looks again when keep() is ready.
        if v_waits < 5 and mqpg._await_carry() then
            v_waits := v_waits + 1;
            v_locked := null;
            continue;
        end if;
        exit when v_subscription.mode <> 'shared';
        v_only := v_locked;
    end loop;
    if v_open then
        v_version := mqpg._write_cursor(
            v_done_cursor, 'a', v_done_epoch, v_done_cursor.claimed, v_done_cursor.owner, v_rest);
    end if;
    if v_paused then
        return;
    end if;
    -- A snapshot from before the ends were noted shows neither the rows nor the note (see _tail()).
    -- READ COMMITTED callers have a newer one than the list of partitions that they read.
    if current_setting('transaction_isolation') <> 'read committed'
        and not mqpg._is_attached('consume_queue', s.segment_no)
        from mqpg.segment s where s.family = 'tick' and s.tails_noted_at is null order by s.segment_no limit 1
    then
        raise exception using errcode = '40001',
            message = 'a segment was dropped while the ends of queues were read: try the transaction again';
    end if;
    if v_shut or v_locked is not null then
        perform mqpg._report_foreign_lock(
            v_subscription.subscription_id, case when not v_shut then v_locked end);
    end if;
end
$$;

-- Claims up to max_messages messages of one queue, or of the subscription's retry lane, for a lease and
-- returns them; nothing when there is nothing to be had, or the topic or subscription is paused. Takes the queue that
-- waited longest, first what a lease that ran out left behind. Never waits: a queue that is locked by another call is
-- passed over; in mode shared, where many share a queue, it waits up to 20 ms for one, if there is nothing else.
-- In one transaction with ack() the claim is the transaction's (C1); a rollback gives it back at once.
-- Modes: exclusive, a queue with an open claim gives nothing to anyone; shared, up to 64 claims of a queue are
-- open; pinned, a queue stays with the consumer that first received from it until unpin(), whatever the lease;
-- broadcast, each consumer name has its own position, from its first receive on.
-- What the subscription's filter does not choose is passed over and done with.
-- Locks: the queue's advisory lock, until the end of the transaction.
-- Cost: a look at each queue's cursor and tail, one cursor version, and the messages; with a filter also those that it
-- does not choose.
-- Errors: MQ001, MQ003, MQ005, MQ014 (missing body), 40001 (REPEATABLE READ callers).
create function mqpg.receive(
    consumer_group text, topic text, max_messages int default 100, lease interval default '30 s',
    consumer text default null, queue_id int default null
) returns setof mqpg.delivery
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_subscription mqpg.subscription;
    v_topic mqpg.topic;
    v_waiting record;
    v_locked int;           -- shared: the first queue that another call had locked
    v_tail bigint;
    v_cursor mqpg.cursor;
    v_claim mqpg.claim;
    v_runs record;
    v_receipt text;
    v_rows bigint;
begin
    select t.* into v_topic from mqpg.topic t where t.name = receive.topic;
    select s.* into v_subscription from mqpg.subscription s
    where s.topic_id = v_topic.topic_id and s.consumer_group = receive.consumer_group and s.member = '';
    if not found then
        v_subscription := mqpg._subscription(receive.consumer_group, receive.topic);
    end if;
    -- most calls need no more than this to be checked
    if (receive.max_messages between 1 and 10000 and receive.lease between interval '10 milliseconds' and interval '1 day'
        and receive.consumer is null and receive.queue_id is null and v_subscription.mode in ('exclusive', 'shared'))
        is not true then
        perform mqpg._require_receive_arguments(
            v_subscription, v_topic.queues, receive.max_messages, receive.lease, receive.consumer, receive.queue_id);
    end if;
    if v_subscription.paused or v_topic.paused then
        return;
    end if;
    if v_subscription.mode = 'broadcast' then
        v_subscription := mqpg._member(v_subscription, v_topic.queues, receive.consumer);
    end if;
    for v_round in 1..2 loop
        for v_waiting in
            select q.queue_id, c.claimed, c.claims,
                case q.queue_id when -1 then v_subscription.subscription_id else 0 end as lane
            from generate_series(
                coalesce(v_locked, receive.queue_id, -1),
                coalesce(v_locked, receive.queue_id, v_topic.queues - 1)) as q(queue_id)
            cross join lateral (
                select k.claimed, k.at, k.owner, k.claims from mqpg.cursor k
                where k.subscription_id = v_subscription.subscription_id and k.queue_id = q.queue_id
                order by k.version desc limit 1
            ) as c
            where c.owner is null or c.owner = receive.consumer
            order by c.at
        loop
            -- look before taking the lock: it is held to the end of the transaction
            if v_waiting.claims = '{}' then
                v_tail := mqpg._tail(v_topic.topic_id, v_waiting.queue_id, v_waiting.lane);
                continue when v_waiting.claimed >= v_tail;
            else
                v_tail := null;
                continue when case mqpg._next_claim(v_subscription, v_waiting.claims)
                    when -1 then true
                    when 0 then v_waiting.claimed >= mqpg._tail(v_topic.topic_id, v_waiting.queue_id, v_waiting.lane)
                    else false
                end;
            end if;
            if not pg_try_advisory_xact_lock(
                1836150833, v_subscription.subscription_id * 1024 + v_waiting.queue_id + 1) then
                if v_round = 1 then
                    v_locked := coalesce(v_locked, v_waiting.queue_id);
                    continue;
                end if;
                exit when not mqpg._try_lock_cursor(v_subscription.subscription_id, v_waiting.queue_id);
            end if;
            -- a new statement: the cursor as the last holder of the lock left it
            v_cursor := mqpg._cursor(v_subscription.subscription_id, v_waiting.queue_id);
            if v_topic.message_ttl is not null and v_waiting.lane = 0 then
                v_cursor := mqpg._expire(v_topic, v_subscription, v_cursor);
            end if;
            v_claim := mqpg._claim(
                v_subscription, v_cursor, receive.max_messages, receive.lease, receive.consumer, v_tail);
            continue when v_claim is null;
            v_runs := mqpg._runs(
                v_topic.topic_id, v_waiting.queue_id, v_waiting.lane, v_claim.from_offset, v_claim.to_offset);
            if v_claim.picked is not null then
                v_runs := mqpg._matching_runs(
                    v_claim.picked, v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.attempts,
                    v_runs.lowest, v_runs.highest);
            end if;
            -- a variable: once _deliveries() is inlined, an expression would be computed again for each row
            v_receipt := format('%s.%s.%s.%s.%s', v_subscription.subscription_id, v_waiting.queue_id, v_claim.epoch,
                v_claim.from_offset, v_claim.to_offset);
            if exists (
                select from mqpg.held h
                where h.message_id >= v_runs.lowest * 1024 and h.message_id < v_runs.highest * 1024 + 1024
            ) then
                return query
                select d.* from mqpg._deliveries_with_survivors(
                    v_topic.name, v_waiting.queue_id, v_claim.attempt, v_receipt, v_claim.settled, v_claim.picked,
                    v_runs.ids, v_runs.bodies, v_runs.offsets, v_runs.lengths, v_runs.attempts, v_runs.lowest,
                    v_runs.highest) as d;
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
        exit when v_locked is null or v_subscription.mode <> 'shared';
    end loop;
end
$$;
comment on function mqpg.receive(text, text, int, interval, text, int)
    is 'Claim messages of one queue for a lease and return them';

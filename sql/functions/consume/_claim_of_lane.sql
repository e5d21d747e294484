-- _claim() for the retry lane of a pinned subscription. A message of the lane is for the consumer
-- that owns its queue, because only that one's database knows what became of it. If the queue has
-- no owner, the delivery makes the consumer its owner. Messages for other consumers wait in claims
-- whose key is their queue. If 4096 of them wait, no fresh message is delivered until one of their
-- owners receives. It looks no longer than until the time `until`, as _claim() does.
-- Locks: those of _own_queue(); the caller holds the lane's cursor lock.
-- Cost: one cursor version, and what _messages_of_lane() reads.
-- Errors: MQ005 (unsubscribed meanwhile), 55P03, 40001.
create function mqpg._claim_of_lane(
    subscription mqpg.subscription, last_version mqpg.cursor, tail bigint, max_messages int, lease interval,
    consumer text, until timestamptz
) returns mqpg.claim
language plpgsql as $$
declare
    v_id int := (_claim_of_lane.subscription).subscription_id;
    v_cursor mqpg.cursor := _claim_of_lane.last_version;
    v_max int := (_claim_of_lane.subscription).max_attempts;
    v_rest mqpg.claim [];   -- of other consumers
    v_claim mqpg.claim;
    v_message record;
    v_mine boolean;
    v_fits boolean;
    v_most int;             -- how many messages the claim may have
    v_upto bigint;
    v_offsets bigint [];    -- messages that wait: offset, deliveries, queue
    v_deliveries int [];
    v_queues text [];
    v_action "char";
    v_version bigint;
begin
    loop
        v_rest := array(
            select c from unnest(v_cursor.claims) c where not mqpg._is_claim_for(v_id, c, _claim_of_lane.consumer));
        v_upto := v_cursor.claimed + (
            select greatest(0, least(_claim_of_lane.tail - v_cursor.claimed, greatest(_claim_of_lane.max_messages, 100),
                4096 - coalesce(sum(coalesce(cardinality(c.picked), c.to_offset - c.from_offset)), 0)::bigint))
            from unnest(v_rest) c);
        v_claim := row(
            null, null, null, null, clock_timestamp() + _claim_of_lane.lease, _claim_of_lane.consumer, null, '{}', null);
        v_most := _claim_of_lane.max_messages;
        v_offsets := '{}';
        v_deliveries := '{}';
        v_queues := '{}';
        v_action := mqpg._action('filtered');   -- or put aside: see _action()
        for v_message in
            select m.* from mqpg._messages_of_lane(
                _claim_of_lane.subscription, v_cursor, v_upto, _claim_of_lane.consumer) m
        loop
            v_mine := coalesce(v_message.owner = _claim_of_lane.consumer, true);
            v_fits := v_mine and cardinality(v_claim.picked) < v_most
                and v_message.deliveries + 1 = coalesce(v_claim.attempt, v_message.deliveries + 1)
                and (v_message.attempt < v_max or v_claim.picked = '{}')
                and v_message.queue_offset < coalesce(v_claim.picked[1], v_message.queue_offset) + 10000;
            if v_mine and v_message.attempt > v_max and v_claim.attempt is null then
                perform mqpg._require_subscribed(_claim_of_lane.subscription);
                perform mqpg._bury(
                    v_id, array[v_message.message_id], array[v_message.deliver_id],
                    array[v_message.attempt - 1], 'lease ran out at the last attempt', limited => true);
                v_action := mqpg._action('dead_letter');
                v_most := 0;    -- this version only says that
            elsif v_fits and (v_message.owner is not null
                or mqpg._own_queue(v_id, v_message.queue_id, _claim_of_lane.consumer)) then
                v_claim.attempt := v_message.deliveries + 1;
                v_claim.picked := v_claim.picked || v_message.queue_offset;
                if v_message.attempt = v_max then
                    v_most := 1;
                end if;
            elsif v_mine and v_message.fresh and not v_fits then
                v_upto := v_message.queue_offset;
                exit;
            else
                v_offsets := v_offsets || v_message.queue_offset;
                v_deliveries := v_deliveries || v_message.deliveries;
                v_queues := array_append(v_queues, v_message.queue_id::text);
            end if;
        end loop;
        v_rest := v_rest || mqpg._pack_claims(v_cursor.version, v_offsets, v_deliveries, v_queues,
            array_fill('-infinity'::timestamptz, array[cardinality(v_offsets)]));
        if v_claim.attempt is not null then
            v_claim.epoch := mqpg._epoch(v_cursor.version + 1);
            v_claim.from_offset := v_claim.picked[1];
            v_claim.to_offset := v_claim.picked[cardinality(v_claim.picked)] + 1;
            v_claim := mqpg._shrink_claim(v_claim, '{}');
            v_action := mqpg._action(case v_claim.attempt when 1 then 'receive' else 'take_over' end);
            v_version := mqpg._write_cursor(v_cursor, v_action, v_claim.epoch, v_upto, null, v_claim || v_rest);
            return v_claim;
        end if;
        if v_upto = v_cursor.claimed and v_action <> mqpg._action('dead_letter') then
            return null;
        end if;
        v_version := mqpg._write_cursor(v_cursor, v_action, null, v_upto, null, v_rest);
        _claim_of_lane.until := coalesce(
            _claim_of_lane.until, clock_timestamp() + mqpg._setting('filter_time')::interval);
        if clock_timestamp() >= _claim_of_lane.until then
            return null;
        end if;
        v_cursor := mqpg._cursor(v_id, -1);
    end loop;
end
$$;

-- _claim() for a queue of a block_key subscription that has claims. A message waits if an earlier
-- one with its key has failed, and all others are delivered. All messages of a claim have the same
-- count of attempts, and a message that does not fit into it makes the later ones with its key
-- wait. If about 4096 messages of a queue wait, no fresh one is delivered until a key is free
-- again. With a filter the search ends at the time `until`.
-- Locks: if it writes dead letters, the subscription's row, as _require_subscribed(); the caller holds the
-- queue's cursor lock.
-- Cost: one cursor version, and what _candidates_by_key() reads.
-- Errors: MQ005 (unsubscribed meanwhile), 55P03, 40001.
create function mqpg._claim_by_key(
    subscription mqpg.subscription, last_version mqpg.cursor, max_messages int, lease interval, consumer text,
    until timestamptz
) returns mqpg.claim
language plpgsql as $$
declare
    v_cursor mqpg.cursor := _claim_by_key.last_version;     -- as it will be written
    v_max int := (_claim_by_key.subscription).max_attempts;
    v_tail bigint;
    v_step int := _claim_by_key.max_messages;
    v_from bigint;
    v_upto bigint;
    v_claim mqpg.claim;
    v_message record;
    v_offsets bigint [];    -- messages that wait: offset, deliveries, key if blocked, until
    v_deliveries int [];
    v_keys text [];
    v_untils timestamptz [];
    v_skipped text [];      -- keys of messages that are free but do not fit into this claim
    v_action "char" := mqpg._action('filtered');
begin
    if mqpg._claim_to_take_over(_claim_by_key.subscription, v_cursor.claims) is null then
        return null;
    end if;
    v_tail := mqpg._tail((_claim_by_key.subscription).topic_id, v_cursor.queue_id, 0);
    loop
        v_from := v_cursor.claimed;
        v_upto := case
            when mqpg._count_blocked(v_cursor.claims) < 4096 then least(v_tail, v_from + v_step)
            else v_from
        end;
        v_claim := row(
            null, null, null, null, clock_timestamp() + _claim_by_key.lease, _claim_by_key.consumer, null, '{}', null);
        v_offsets := '{}';
        v_deliveries := '{}';
        v_keys := '{}';
        v_untils := '{}';
        v_skipped := '{}';
        for v_message in select b.* from mqpg._candidates_by_key(_claim_by_key.subscription, v_cursor, v_upto) b loop
            if not v_message.blocked and v_message.key = any(v_skipped) is not true then
                if v_claim.attempt is null and v_message.deliveries >= v_max then
                    perform mqpg._require_subscribed(_claim_by_key.subscription);
                    perform mqpg._bury(v_cursor.subscription_id, array[m.message_id], array[m.deliver_id],
                        array[v_message.deliveries], 'lease ran out at the last attempt', limited => true)
                    from mqpg._claimed_messages((_claim_by_key.subscription).topic_id, v_cursor.queue_id, 0, row(
                        null, v_message.queue_offset, v_message.queue_offset + 1, 1, null, null, null, null, null)) m;
                    v_action := mqpg._action('dead_letter');
                    continue;
                end if;
                v_claim.attempt := coalesce(v_claim.attempt, v_message.deliveries + 1);
                if v_message.deliveries + 1 = v_claim.attempt
                    and cardinality(v_claim.picked)
                        < (case when v_claim.attempt < v_max or v_max = 1 then _claim_by_key.max_messages else 1 end)
                    and v_message.queue_offset < coalesce(v_claim.picked[1], v_message.queue_offset) + 10000
                then
                    v_claim.picked := v_claim.picked || v_message.queue_offset;
                    continue;
                end if;
            end if;
            if v_message.fresh and not v_message.blocked then
                v_upto := v_message.queue_offset;
                exit;
            end if;
            v_offsets := v_offsets || v_message.queue_offset;
            v_deliveries := v_deliveries || v_message.deliveries;
            v_keys := array_append(v_keys, case when v_message.blocked then v_message.key end);
            v_untils := v_untils || case when v_message.blocked then v_message.until else '-infinity' end;
            if not v_message.blocked and v_message.key is not null then
                v_skipped := v_skipped || v_message.key;
            end if;
        end loop;
        if v_action = mqpg._action('filtered') and exists (select from unnest(v_cursor.claims) c where c.epoch > 0) then
            v_action := mqpg._action('dead_letter');    -- the claims that ran out no longer belong to their consumers
        end if;
        v_cursor.claimed := v_upto;
        v_cursor.claims := mqpg._pack_claims(v_cursor.version, v_offsets, v_deliveries, v_keys, v_untils);
        exit when v_claim.attempt is not null or v_upto >= v_tail or v_upto = v_from
            or clock_timestamp() >= _claim_by_key.until;
        v_step := greatest(v_step, least(v_step * 2, 1024));
    end loop;
    if v_claim.attempt is not null then
        v_claim.epoch := mqpg._epoch(v_cursor.version + 1);
        v_claim.from_offset := v_claim.picked[1];
        v_claim.to_offset := v_claim.picked[cardinality(v_claim.picked)] + 1;
        v_claim := mqpg._shrink_claim(v_claim, '{}');
        perform mqpg._write_cursor(
            v_cursor, mqpg._action('take_over'), v_claim.epoch, v_cursor.claimed, v_cursor.owner,
            v_claim || v_cursor.claims);
        return v_claim;
    end if;
    if v_action = mqpg._action('dead_letter') or v_cursor.claimed > (_claim_by_key.last_version).claimed then
        perform mqpg._write_cursor(v_cursor, v_action, null, v_cursor.claimed, v_cursor.owner, v_cursor.claims);
    end if;
    return null;
end
$$;

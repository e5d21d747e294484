-- Claims the next messages of a queue for receive() and writes the cursor. A range that was
-- returned or whose lease ran out comes first, then fresh messages without those that the
-- subscription's filter does not match. Messages whose attempts are used up become dead letters,
-- and the last attempt of a message is delivered alone. Returns null if there is nothing to
-- deliver.
-- Arguments: those of _claim_next(), and
--   queue_id: the queue; -1: the retry lane.
--   tail: the queue's next offset, or one that lies max_messages behind the cursor, as the caller has
--       just seen it. So a call that lost a race may claim less than there is.
--   until: when it stops to search through messages that are not chosen, have expired, or have no attempt
--       left; null: the setting filter_time after the first of these.
-- Locks: none; the caller holds the queue's cursor lock.
-- Cost: one cursor version; where attempts count, a look at the runs of the range; with a filter see
-- _next_matches().
-- Errors: 40001.
create function mqpg._claim(
    subscription mqpg.subscription, topic mqpg.topic, queue_id int, tail bigint, max_messages int, lease interval,
    consumer text, until timestamptz
) returns mqpg.claim
language plpgsql as $$
declare
    -- The subscription whose retry lane the queue is; 0: it is a queue of the topic.
    v_lane_of int := case _claim.queue_id when -1 then _claim.subscription.subscription_id else 0 end;
    v_owner text := case _claim.subscription.mode when 'pinned' then _claim.consumer end;
    v_cursor mqpg.cursor;
    v_nth int;          -- the place of the claim that is taken over; 0: none
    v_old mqpg.claim;   -- that claim
    v_claim mqpg.claim;
    v_left mqpg.claim;
    v_rest mqpg.claim [];
    v_upto bigint;      -- end of what is claimed or filtered
    v_expired record;
    v_matches record;
    v_limit record;
    v_action "char";
    v_version bigint;
begin
    -- 1. The newest version of the cursor, by a new statement, which sees what the lock's last holder wrote.
    v_cursor := mqpg._cursor(_claim.subscription.subscription_id, _claim.queue_id);
    if _claim.topic.message_ttl is not null and v_lane_of = 0 then
        v_expired := mqpg._expire(_claim.topic, _claim.subscription, _claim.until, v_cursor);
        if not v_expired.complete then
            return null;
        end if;
        v_cursor := v_expired.last_version;
    end if;
    loop
        -- 2. Whether this call may claim at all, and which old claim it takes over.
        if v_cursor.version is null or (v_cursor.owner <> coalesce(_claim.consumer, '') and v_lane_of = 0) then
            return null;
        end if;
        v_nth := 0;
        if v_cursor.claims <> '{}' then
            if _claim.subscription.on_failure = 'block_key' and v_lane_of = 0 then
                return mqpg._claim_by_key(_claim.subscription, v_cursor, _claim.max_messages, _claim.lease,
                    _claim.consumer, _claim.until);
            end if;
            v_nth := mqpg._claim_to_take_over(_claim.subscription, v_cursor.claims);
            if v_nth is null then
                return null;
            end if;
        end if;
        -- 3. The range: that of the old claim, or fresh messages that the filter chooses.
        if v_nth > 0 then
            v_action := mqpg._action('take_over');
            v_old := v_cursor.claims[v_nth];
            v_rest := v_cursor.claims[:v_nth - 1] || v_cursor.claims[v_nth + 1:];
            v_upto := v_cursor.claimed;
            v_claim := mqpg._take_over(v_old, _claim.max_messages, _claim.lease, _claim.consumer);
        else
            v_action := mqpg._action('receive');
            v_rest := v_cursor.claims;
            if _claim.tail <= v_cursor.claimed then
                _claim.tail := mqpg._tail(_claim.subscription.topic_id, v_cursor.queue_id, v_lane_of);
                if _claim.tail <= v_cursor.claimed then
                    return null;
                end if;
            end if;
            v_claim := row(
                null, v_cursor.claimed, least(v_cursor.claimed + _claim.max_messages, _claim.tail), 1,
                clock_timestamp() + _claim.lease, _claim.consumer, null, null, null)::mqpg.claim;
            v_upto := v_claim.to_offset;
            if (_claim.subscription.filter is not null or _claim.subscription.tags is not null) and v_lane_of = 0 then
                v_matches := mqpg._next_matches(
                    _claim.subscription, v_cursor.queue_id, v_cursor.claimed, _claim.tail, _claim.max_messages,
                    _claim.until);
                v_upto := v_matches.upto;
                if v_matches.picked = '{}' then
                    v_version := mqpg._write_cursor(v_cursor, mqpg._action('filtered'), null, v_upto, v_owner, v_rest);
                    return null;
                end if;
                v_claim.to_offset := v_upto;
                v_claim.picked := v_matches.picked;
                v_claim := mqpg._shrink_claim(v_claim, '{}');
            end if;
        end if;
        v_claim.epoch := mqpg._epoch(v_cursor.version + 1);
        -- 4. It ends before a message whose attempts are used up, or behind one on its last attempt.
        if v_lane_of <> 0 or v_claim.attempt >= _claim.subscription.max_attempts then
            if v_lane_of <> 0 and _claim.subscription.mode = 'pinned' then
                return mqpg._claim_of_lane(
                    _claim.subscription, v_cursor, _claim.tail, _claim.max_messages, _claim.lease, _claim.consumer,
                    _claim.until);
            end if;
            v_limit := mqpg._limit_attempts(_claim.subscription, v_cursor.queue_id, v_lane_of, v_claim);
            if v_nth = 0 and v_limit.to_offset < v_claim.to_offset then
                v_upto := v_limit.to_offset;
            end if;
            v_claim.to_offset := v_limit.to_offset;
            if v_limit.buried then
                v_action := mqpg._action('dead_letter');
            end if;
        end if;
        -- 5. The version of the cursor that has the claim.
        -- The rest of the old range is free, and no receipt for it exists.
        if v_nth > 0 and v_old.to_offset > v_claim.to_offset then
            v_left := mqpg._free_claim(v_old, v_cursor, v_old.attempt);
            v_left.from_offset := v_claim.to_offset;
            v_left := mqpg._shrink_claim(v_left, '{}');
            if v_left.epoch is not null then
                v_rest := v_left || v_rest;
            end if;
        end if;
        if v_action <> mqpg._action('dead_letter') then
            if v_claim.settled is not null or v_claim.picked is not null then
                v_claim := mqpg._shrink_claim(v_claim, '{}');
            end if;
            v_version := mqpg._write_cursor(v_cursor, v_action, v_claim.epoch, v_upto, v_owner, v_claim || v_rest);
            return v_claim;
        end if;
        -- The first message became a dead letter: write that and look again, if there is time.
        v_version := mqpg._write_cursor(
            v_cursor, v_action, case when v_nth > 0 then v_old.epoch end, v_upto, v_owner, v_rest);
        _claim.until := coalesce(_claim.until, clock_timestamp() + mqpg._setting('filter_time')::interval);
        if clock_timestamp() >= _claim.until then
            return null;
        end if;
        v_cursor := mqpg._cursor(v_cursor.subscription_id, v_cursor.queue_id);
    end loop;
end
$$;

-- Claims the next range of a queue and writes the cursor. A range that was returned or whose lease
-- ran out comes first, then fresh messages without those that the subscription's filter does not
-- match. Messages whose attempts are used up become dead letters, and the last attempt of a message
-- is delivered alone. Returns null if there is nothing to deliver. `tail` is the queue's next
-- offset as the caller has just seen it; null: it is looked up. `acknowledged` says that the new
-- version also ends a claim, which is missing in `last_version`; the range is then a fresh one.
-- Locks: none; the caller holds the queue's cursor lock.
-- Cost: one cursor version; where attempts count, a look at the runs of the range; with a filter
-- see _next_matches().
create function mqpg._claim(
    subscription mqpg.subscription, last_version mqpg.cursor, max_messages int, lease interval, consumer text,
    tail bigint default null, acknowledged boolean default false
) returns mqpg.claim
language plpgsql as $$
declare
    v_cursor mqpg.cursor := _claim.last_version;
    v_lane int := case v_cursor.queue_id when -1 then v_cursor.subscription_id else 0 end;
    v_owner text := case (_claim.subscription).mode when 'pinned' then _claim.consumer end;
    v_nth int;
    v_old mqpg.claim;
    v_claim mqpg.claim;
    v_left mqpg.claim;
    v_rest mqpg.claim [];
    v_tail bigint;
    v_upto bigint;      -- end of what is claimed or filtered
    v_end bigint;
    v_pick record;
    v_action "char";
    v_version bigint;
begin
    loop
        if v_cursor.version is null or v_cursor.owner <> _claim.consumer then
            return null;
        end if;
        if v_cursor.claims = '{}' then
            v_nth := 0;
        elsif (_claim.subscription).on_failure = 'block_key' and v_lane = 0 then
            return mqpg._claim_by_key(_claim.subscription, v_cursor, _claim.max_messages, _claim.lease,
                _claim.consumer);
        else
            v_nth := mqpg._next_claim(_claim.subscription, v_cursor.claims);
        end if;
        if v_nth < 0 then
            return null;
        elsif v_nth = 0 then
            v_action := case when _claim.acknowledged then 'b' else 'r' end;
            v_old := null;
            v_rest := v_cursor.claims;
            v_tail := _claim.tail;
            if v_tail is null or v_tail <= v_cursor.claimed then
                v_tail := mqpg._tail((_claim.subscription).topic_id, v_cursor.queue_id, v_lane);
                if v_tail <= v_cursor.claimed then
                    return null;
                end if;
            end if;
            v_claim := row(
                null, v_cursor.claimed, least(v_cursor.claimed + _claim.max_messages, v_tail), 1,
                clock_timestamp() + _claim.lease, _claim.consumer, null, null, null)::mqpg.claim;
            v_upto := v_claim.to_offset;
            if ((_claim.subscription).filter is not null or (_claim.subscription).tags is not null) and v_lane = 0 then
                v_pick := mqpg._next_matches(
                    _claim.subscription, v_cursor.queue_id, v_cursor.claimed, v_tail, _claim.max_messages);
                if v_pick.picked = '{}' then
                    perform mqpg._write_cursor(v_cursor, 'f', null, v_pick.upto, v_owner, v_rest);
                    return null;
                end if;
                v_upto := v_pick.upto;
                v_claim.to_offset := v_upto;
                v_claim.picked := v_pick.picked;
                v_claim := mqpg._shrink_claim(v_claim, '{}');
            end if;
        else
            v_action := 't';
            v_old := v_cursor.claims[v_nth];
            v_rest := v_cursor.claims[:v_nth - 1] || v_cursor.claims[v_nth + 1:];
            v_upto := v_cursor.claimed;
            v_claim := v_old;
            v_claim.attempt := v_old.attempt + 1;
            v_claim.lease_until := clock_timestamp() + _claim.lease;
            v_claim.consumer := _claim.consumer;
            v_claim.key := null;
            v_claim.to_offset := least(v_old.to_offset, case
                when v_old.picked is null then v_old.from_offset + _claim.max_messages
                else v_old.picked[_claim.max_messages] + 1
            end);
        end if;
        -- The transaction id makes this receipt differ from one that a rolled-back transaction had.
        v_claim.epoch := (v_cursor.version + 1) * 1048576 + pg_current_xact_id()::text::bigint % 1048576;
        if v_lane <> 0 or v_claim.attempt >= (_claim.subscription).max_attempts then
            v_end := mqpg._limit_attempts(_claim.subscription, v_cursor.queue_id, v_lane, v_claim);
            if v_nth = 0 and abs(v_end) < v_claim.to_offset then
                v_upto := abs(v_end);
            end if;
            v_claim.to_offset := v_end;
        end if;
        -- The rest of the old range is free, and no receipt for it exists.
        if v_old.to_offset > abs(v_claim.to_offset) then
            v_left := mqpg._free_claim(v_old, v_cursor, v_old.attempt);
            v_left.from_offset := abs(v_claim.to_offset);
            v_left := mqpg._shrink_claim(v_left, '{}');
            if v_left.epoch is not null then
                v_rest := v_left || v_rest;
            end if;
        end if;
        if v_claim.to_offset > 0 then
            if v_claim.settled is not null or v_claim.picked is not null then
                v_claim := mqpg._shrink_claim(v_claim, '{}');
            end if;
            v_version := mqpg._write_cursor(v_cursor, v_action, v_claim.epoch, v_upto, v_owner, v_claim || v_rest);
            return v_claim;
        end if;
        -- The first message became a dead letter: write that and look again.
        perform mqpg._write_cursor(v_cursor, 'd', v_old.epoch, v_upto, v_owner, v_rest);
        v_cursor := mqpg._cursor(v_cursor.subscription_id, v_cursor.queue_id);
    end loop;
end
$$;

-- Hands out the next range of a queue and writes the cursor: what a lease that ran out left behind, else what
-- was never handed out. Messages whose attempts are used up become dead letters on the way; the last
-- attempt of a message is delivered alone. Null when nothing is to be had.
-- Locks: none (the caller holds the queue's). Cost: one cursor version; where attempts matter a look at
-- the range's runs.
create function mqpg._claim(
    subscription mqpg.subscription, last_version mqpg.cursor, max_messages int, lease interval, consumer text
) returns mqpg.claim
language plpgsql as $$
declare
    v_cursor mqpg.cursor := _claim.last_version;
    v_mode text := (_claim.subscription).mode;
    v_lane int := case v_cursor.queue_id when -1 then v_cursor.subscription_id else 0 end;
    v_owner text := case when v_mode = 'pinned' then _claim.consumer end;
    v_old mqpg.claim;
    v_claim mqpg.claim;
    v_left mqpg.claim;
    v_rest mqpg.claim [];
    v_tail bigint;
    v_action "char";
begin
    loop
        if v_cursor.version is null or v_cursor.owner <> _claim.consumer
            or mqpg._is_busy(v_cursor.claims, v_cursor.owner) then
            return null;
        end if;
        v_old := v_cursor.claims[1];
        v_rest := v_cursor.claims[2:];
        if v_old.epoch is null then
            v_action := 'r';
            v_tail := mqpg._tail((_claim.subscription).topic_id, v_cursor.queue_id, v_lane);
            if v_tail <= v_cursor.claimed then
                return null;
            end if;
            v_claim := row(
                null, v_cursor.claimed, least(v_cursor.claimed + _claim.max_messages, v_tail), 1,
                clock_timestamp() + _claim.lease, _claim.consumer, null)::mqpg.claim;
        else
            v_action := 't';
            v_claim := v_old;
            v_claim.attempt := v_old.attempt + 1;
            v_claim.lease_until := clock_timestamp() + _claim.lease;
            v_claim.consumer := _claim.consumer;
            v_claim.to_offset := least(v_claim.to_offset, v_claim.from_offset + _claim.max_messages);
        end if;
        -- the xid tells a receipt of a transaction that rolled back from the next one's
        v_claim.epoch := (v_cursor.version + 1) * 1048576 + pg_current_xact_id()::text::bigint % 1048576;
        if v_lane <> 0 or v_claim.attempt >= (_claim.subscription).max_attempts then
            v_claim.to_offset := mqpg._limit_attempts(_claim.subscription, v_cursor.queue_id, v_lane, v_claim);
        end if;
        -- what is left of the old range is free, and nobody holds a receipt for it
        if v_old.to_offset > abs(v_claim.to_offset) then
            v_left := mqpg._free_claim(v_old, v_cursor, v_old.attempt);
            v_left.from_offset := abs(v_claim.to_offset);
            v_left := mqpg._settle_offsets(v_left, '{}');
            if v_left.epoch is not null then
                v_rest := v_left || v_rest;
            end if;
        end if;
        if v_claim.to_offset > 0 then
            v_claim.settled := (
                select array_agg(s) from unnest(v_claim.settled) s where s < v_claim.to_offset);
            perform mqpg._write_cursor(
                v_cursor, v_action, v_claim.epoch,
                greatest(v_cursor.claimed, v_claim.to_offset), v_owner, v_claim || v_rest);
            return v_claim;
        end if;
        -- the first message was buried: note it and look again
        perform mqpg._write_cursor(
            v_cursor, 'd', v_old.epoch, greatest(v_cursor.claimed, -v_claim.to_offset), v_owner, v_rest);
        v_cursor := mqpg._cursor(v_cursor.subscription_id, v_cursor.queue_id);
    end loop;
end
$$;
comment on function mqpg._claim(mqpg.subscription, mqpg.cursor, int, interval, text)
    is 'Internal: hand out the next range of a queue';

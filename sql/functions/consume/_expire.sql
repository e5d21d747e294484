-- Skips the fresh messages of a queue that became visible longer ago than the topic's message_ttl.
-- They count as consumed or, with on_expired 'dead_letter', become dead letters. The table
-- position_jump has their offsets. A message that was delivered once does not expire. Returns the
-- cursor as it is afterwards. Dead letters take time, so those that are left at the time `until` are
-- for a later call: `complete` is then false.
-- Locks: where it writes dead letters, the subscription's row, as _require_subscribed(); the caller
-- holds the queue's cursor lock.
-- Cost: two index lookups if the next message has not expired; else see _offset_at_time(), one
-- cursor version, and one row for each dead letter.
-- Errors: MQ005 (unsubscribed meanwhile), 55P03, 40001.
create function mqpg._expire(
    topic mqpg.topic, subscription mqpg.subscription, until timestamptz, inout last_version mqpg.cursor,
    out complete boolean
)
language plpgsql as $$
declare
    v_cursor mqpg.cursor := _expire.last_version;
    v_before timestamptz := clock_timestamp() - (_expire.topic).message_ttl;
    v_tick_id bigint;
    v_to bigint;
    v_end bigint;
    v_from bigint;
    v_chosen bigint [];
    v_reason text;  -- for the audit: there is a dead letter of each
begin
    complete := true;
    select c.tick_id into v_tick_id from mqpg.consume_queue c
    where c.topic_id = (_expire.topic).topic_id and c.queue_id = v_cursor.queue_id and c.subscription_id = 0
        and c.base_offset <= v_cursor.claimed
    order by c.base_offset desc limit 1;
    if v_tick_id is null or not exists (
        select from mqpg.tick t where t.tick_id = v_tick_id and t.at < v_before) then
        return;
    end if;
    v_end := mqpg._offset_at_time((_expire.topic).topic_id, v_cursor.queue_id, 0, v_before);
    if v_end <= v_cursor.claimed then
        return;
    end if;
    v_to := v_end;
    if (_expire.topic).on_expired = 'dead_letter' then
        v_reason := 'dead_letter';
        perform mqpg._require_subscribed(_expire.subscription);
        v_to := v_cursor.claimed;
        loop
            v_from := v_to;
            v_to := least(v_from + 1000, v_end);
            -- A message that does not match the filter was never the group's.
            if (_expire.subscription).filter is not null or (_expire.subscription).tags is not null then
                v_chosen := (mqpg._matching_offsets(_expire.subscription, v_cursor.queue_id, v_from, v_to)).offsets;
            end if;
            perform mqpg._bury(
                v_cursor.subscription_id, array_agg(m.message_id), array_agg(m.deliver_id),
                array_agg(0), 'expired')
            from mqpg._claimed_messages((_expire.topic).topic_id, v_cursor.queue_id, 0,
                row(null, v_from, v_to, 1, null, null, null, v_chosen, null)::mqpg.claim) m;
            exit when v_to = v_end or clock_timestamp() >= _expire.until;
        end loop;
        complete := v_to = v_end;
    end if;
    perform mqpg._note_position_jump(_expire.subscription, v_cursor.queue_id, v_cursor.claimed, v_to, 'expired');
    perform mqpg._write_cursor(
        v_cursor, mqpg._action('expired'), null, v_to, v_cursor.owner, v_cursor.claims, reason => v_reason);
    last_version := mqpg._cursor(v_cursor.subscription_id, v_cursor.queue_id);
end
$$;

-- Whether the COMMIT of a relay topic that a consumer gets without its PREPARE is a repetition
-- (protocol T4). The broker gives each half message one decision, so a group gets that again only
-- where it was moved back over it. Then it took effect, unless it failed and the PREPARE was not
-- repeated either. Phases that a producer sends itself may be repeated at will: they are repetitions
-- unless the PREPARE lies before from_offset, where the consumer's database began. That database has
-- come to to_offset (0: it is the broker's). Nothing is a repetition while the PREPARE is a dead
-- letter of the group, or waits for its next attempt. Null: it is none, and no such PREPARE is known.
-- Locks: none.
-- Cost: that of _failed_messages(), and after a move back the messages that the PREPARE's tick gave to the
-- queue; for a producer's own phases from another offset than 0 the whole range.
-- Errors: MQ003 (unknown topic), MQ005 (unknown subscription).
create function mqpg._is_repetition(
    consumer_group text, topic text, message_id bigint, handle text, queue_id int, from_offset bigint, to_offset bigint
) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_subscription mqpg.subscription := mqpg._require_subscription(_is_repetition.consumer_group, _is_repetition.topic);
    v_topic_id int := v_subscription.topic_id;
    v_sent_by_broker boolean := coalesce(
        (select o.deliver_id is not distinct from _is_repetition.message_id from mqpg.op_log o
         where o.message_id = mqpg._message_of_handle(_is_repetition.handle) and o.stage = 0),
        -- Of a decision that retention dropped, the handle is left.
        split_part(_is_repetition.handle, '.', 1) = (select b.broker_id from mqpg.broker b));
    v_from bigint;      -- the farthest that the group was moved back, over the broker's COMMIT
    v_failed boolean;   -- the COMMIT, before
    v_prepare_failed boolean;
begin
    if v_sent_by_broker then
        select min(j.from_offset) into v_from
        from mqpg._message(_is_repetition.message_id) m
        cross join lateral mqpg._message_state(
            _is_repetition.message_id, m.topic_id, m.queue_id, m.kind, m.xid) s
        join mqpg.position_jump j on j.subscription_id = v_subscription.subscription_id
            and j.queue_id = m.queue_id and j.back
            and s.queue_offset >= j.from_offset and s.queue_offset < j.to_offset;
    end if;
    select bool_or(f.deliver_id = _is_repetition.message_id),
        bool_or(m.headers ->> 'mqpg-handle' = _is_repetition.handle and m.headers ->> 'mqpg-phase' = 'prepare')
    into v_failed, v_prepare_failed
    from mqpg._failed_messages(v_subscription, _is_repetition.queue_id) f(deliver_id)
    cross join lateral mqpg._message(f.deliver_id) m;
    if v_prepare_failed then
        return false;
    end if;
    if v_sent_by_broker then
        -- A database of the consumer's own is not moved back. What its tick gave to the queue has the PREPARE,
        -- unless it was dropped, or restored (see adopt()).
        return nullif(v_from is not null and (v_failed is not true or (_is_repetition.to_offset = 0 and exists (
            select from mqpg._message(mqpg._message_of_handle(_is_repetition.handle)) h
            join mqpg.consume_queue q on q.tick_id = mqpg._tick_of_transaction(h.xid) and q.topic_id = h.topic_id
                and q.queue_id = h.queue_id and q.subscription_id = 0
            where h.topic_id = v_topic_id and q.base_offset + q.n > v_from
                and mqpg._has_prepare(q.topic_id, q.queue_id, _is_repetition.handle,
                    greatest(q.base_offset, v_from), q.base_offset + q.n)))), false);
    end if;
    return nullif(_is_repetition.from_offset = 0
        or mqpg._has_prepare(v_topic_id, _is_repetition.queue_id, _is_repetition.handle,
            _is_repetition.from_offset, _is_repetition.to_offset), false);
end
$$;

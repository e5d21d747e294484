-- Whether a range of a relay topic's queue has the PREPARE of a handle (protocol T4). A consumer
-- asks it that gets a COMMIT without a PREPARE, and whose database began inside the queue.
-- Locks: none.
-- Cost: the messages that the PREPARE's tick gave to the queue; the whole range for a handle that
-- is not one of this broker.
-- Errors: MQ003 (unknown topic), MQ005 (unknown subscription).
create function mqpg._has_passed_prepare(
    consumer_group text, topic text, queue_id int, handle text, from_offset bigint, to_offset bigint
) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_topic_id int := (mqpg._require_subscription(
        _has_passed_prepare.consumer_group, _has_passed_prepare.topic)).topic_id;
    v_tick_id bigint := (
        select mqpg._tick_of_transaction(m.xid)
        from mqpg._message((mqpg._parse_handle(_has_passed_prepare.handle)).message_id) m
        where m.topic_id = v_topic_id and m.kind = 'h' and m.xid > '2'::xid8);    -- 2: restored, see adopt()
    v_range mqpg.claim;
begin
    v_range := row(null, _has_passed_prepare.from_offset, _has_passed_prepare.to_offset, 1, null, null, null, null, null);
    if v_tick_id is not null then
        select greatest(min(c.base_offset), v_range.from_offset), least(max(c.base_offset + c.n), v_range.to_offset)
        into v_range.from_offset, v_range.to_offset
        from mqpg.consume_queue c
        where c.tick_id = v_tick_id and c.topic_id = v_topic_id and c.subscription_id = 0
            and c.queue_id = _has_passed_prepare.queue_id;
    end if;
    return exists (
        select from mqpg._claimed_messages(v_topic_id, _has_passed_prepare.queue_id, 0, v_range) c
        cross join lateral mqpg._message(c.deliver_id) m
        where m.headers ->> 'mqpg-handle' = _has_passed_prepare.handle and m.headers ->> 'mqpg-phase' = 'prepare');
end
$$;

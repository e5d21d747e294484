-- Whether a group got the PREPARE of a handle that a range of a relay topic's queue has (protocol
-- T4). A consumer asks it that gets a COMMIT without a PREPARE, and whose database began at
-- from_offset. From 0 on a queue has it in any case, unless it is a dead letter of the group, or waits
-- for its next attempt, which is known of the handles of this broker.
-- Locks: none.
-- Cost: the group's dead letters, and the messages that the PREPARE's tick gave to the queue; from
-- another offset the whole range for a handle that is not one of this broker.
-- Errors: MQ003 (unknown topic), MQ005 (unknown subscription).
create function mqpg._has_passed_prepare(
    consumer_group text, topic text, queue_id int, handle text, from_offset bigint, to_offset bigint
) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_subscription mqpg.subscription := mqpg._require_subscription(
        _has_passed_prepare.consumer_group, _has_passed_prepare.topic);
    v_topic_id int := v_subscription.topic_id;
    v_tick_id bigint;
    v_queue_id int;
    v_cursor mqpg.cursor;
    v_lane mqpg.cursor := mqpg._newest_cursor(v_subscription.subscription_id, -1);
    v_range mqpg.claim;
begin
    if exists (
        select from mqpg.dead_letter d
        cross join lateral mqpg._message(d.deliver_id) m
        where d.subscription_id = v_subscription.subscription_id
            and m.headers ->> 'mqpg-handle' = _has_passed_prepare.handle and m.headers ->> 'mqpg-phase' = 'prepare')
    then
        return false;
    end if;
    select mqpg._tick_of_transaction(m.xid), m.queue_id into v_tick_id, v_queue_id
    from mqpg._message((mqpg._parse_handle(_has_passed_prepare.handle)).message_id) m
    where m.topic_id = v_topic_id and m.kind = 'h' and m.xid > '2'::xid8;    -- 2: restored, see adopt()
    v_cursor := mqpg._newest_cursor(v_subscription.subscription_id, v_queue_id);
    if exists (
        select from mqpg.consume_queue q
        cross join lateral mqpg._claimed_messages(v_topic_id, v_queue_id, 0,
            row(null, q.base_offset, q.base_offset + q.n, 1, null, null, null, null, null)) c
        cross join lateral mqpg._message(c.deliver_id) m
        where q.tick_id = v_tick_id and q.topic_id = v_topic_id and q.subscription_id = 0 and q.queue_id = v_queue_id
            and m.headers ->> 'mqpg-handle' = _has_passed_prepare.handle and m.headers ->> 'mqpg-phase' = 'prepare'
            and (exists (
                select from mqpg._retry_of(v_subscription, c.message_id) r
                where not r.purged and (r.tick_id is null
                    or r.queue_offset is not null and mqpg._is_passed(v_lane, r.queue_offset) is not true))
                -- At its place: see _block_failed().
                or (mqpg._claim_of(v_cursor.claims, c.queue_offset)).epoch < 0))
    then
        return false;
    end if;
    if _has_passed_prepare.from_offset = 0 then
        return true;
    end if;
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

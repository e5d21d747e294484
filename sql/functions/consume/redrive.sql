-- Sends dead letters back to the subscription that they belong to, and to no other. They go into
-- its retry lane, count their attempts from 1, and are visible with the next append().
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   message_ids: redrive only these; an id that is not a dead letter counts as none, so that a
--       repeated call does nothing; null (default): all.
--   filter: a jsonpath that chooses dead letters, as a subscription's filter does; null (default):
--       all.
--   max_messages: redrive at most so many, the smallest ids first; null (default): no limit.
-- Returns: how many were redriven.
-- Locks: the dead letters' rows, so that two calls at once send each dead letter once.
-- Cost: one row deleted and two written for each dead letter.
-- Errors: MQ001 (argument), MQ002 (name), MQ003 (unknown topic), MQ005 (unknown subscription),
-- MQ020 (filter).
create function mqpg.redrive(
    consumer_group text, topic text, message_ids bigint [] default null, filter jsonpath default null,
    max_messages int default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_topic_id int := (mqpg._topic(redrive.topic)).topic_id;
    v_now timestamptz := clock_timestamp();
    v_rows bigint;
begin
    insert into mqpg.delayed (
        visible_at, xid, first_id, deliver_id, n, written_at, topic_id, subscription_id, queue_id, attempt, reason)
    -- Not before the last purge, whose time may be later than that of the broker.
    select v_now, pg_current_xact_id(), l.message_id, nullif(l.deliver_id, l.message_id), 1,
        greatest(b.written_at, (
            select s.retries_from from mqpg.subscription s where s.subscription_id = l.subscription_id)),
        v_topic_id, l.subscription_id, -1, 1, 'redriven'
    from mqpg._take_dead_letters(
        redrive.consumer_group, redrive.topic, redrive.message_ids, redrive.filter, redrive.max_messages,
        'redriven') l
    cross join mqpg._broker_time(v_now) b;
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;

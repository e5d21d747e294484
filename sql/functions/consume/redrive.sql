-- Sends dead letters back to the subscription that they died in, and to no other: into its retry lane, with attempts
-- from 1, visible with the next append(). All of them, those of message_ids, or those that a jsonpath chooses (as a
-- subscription's filter does), up to max_messages, the oldest ids first. Returns how many; an id that is no dead
-- letter counts none, so that a repetition does nothing.
-- Locks: the letters' rows: two redrives at once send each letter once. Cost: one row deleted and two written a
-- letter. Errors: MQ001, MQ002, MQ003, MQ005, MQ020.
create function mqpg.redrive(
    consumer_group text, topic text, message_ids bigint [] default null, filter jsonpath default null,
    max_messages int default null
) returns bigint
language plpgsql as $$
declare
    v_topic_id int := (mqpg._topic(redrive.topic)).topic_id;
    v_now timestamptz := clock_timestamp();
    v_rows bigint;
begin
    insert into mqpg.delayed (
        visible_at, xid, first_id, deliver_id, n, written_at, topic_id, subscription_id, queue_id, attempt, reason)
    select v_now, pg_current_xact_id(), l.message_id, nullif(l.deliver_id, l.message_id), 1, v_now, v_topic_id,
        l.subscription_id, -1, 1, 'redriven'
    from mqpg._take_dead_letters(
        redrive.consumer_group, redrive.topic, redrive.message_ids, redrive.filter, redrive.max_messages,
        'redriven') l;
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
comment on function mqpg.redrive(text, text, bigint [], jsonpath, int) is
    'Send dead letters back to their subscription; returns how many';

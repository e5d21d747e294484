-- Changes a topic. An argument that is null leaves its value unchanged.
-- Arguments:
--   topic: name of the topic.
--   retention: how long messages stay readable, at least 1 minute.
--   max_payload: greatest size of a payload, in bytes, 1 to 268435456.
--   message_ttl: a message that a group did not get within this time after it became visible
--       expires for that group; 0 means never.
--   on_expired: 'skip' (an expired message counts as consumed) or 'dead_letter'.
--   lose_after: drop messages that a group left unread for this long after their segment was
--       closed, once retention is over; 0 means never. keep() reports each loss (view losses).
--   lose_over: drop a group's unread messages beyond this many bytes, in the same way; 0 means
--       never.
--   checksums: true writes a checksum with each new record batch, which the audit compares with the
--       bodies, keys, tags and headers. It costs one pass over them, some 6 % of a small send().
--   queues: more queues, a multiple of the present number, at most 1000. A key stays in its queue or
--       moves to an added one. A group reads an added queue when it has read what was in the older
--       one, so the order of each key is kept. Not ordered are delayed messages that were sent
--       before, and half messages that are decided after they were overdue.
--   max_bytes: with about so many bytes of its messages stored, sends raise MQ028 until retention has
--       dropped some; 0 means no limit. The keeper measures every two seconds.
-- Locks: the topic's row; with `queues` also what begins a subscription. Each up to the setting
-- lock_timeout.
-- Cost: one update; two cursor versions for each added queue of each subscription.
-- Errors: MQ001 (argument), MQ003 (unknown topic), 55P03, 40001.
--
-- Example:
--     select mqpg.alter_topic('orders', retention => '30 days', message_ttl => '1 day');
create function mqpg.alter_topic(
    topic text, retention interval default null, max_payload int default null, message_ttl interval default null,
    on_expired text default null, lose_after interval default null, lose_over bigint default null,
    checksums boolean default null, queues int default null, max_bytes bigint default null
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_topic mqpg.topic := mqpg._topic(alter_topic.topic);
    v_timeout text;
begin
    -- In the place of an argument that is null stands a value that is allowed.
    perform mqpg._require_interval('retention', coalesce(alter_topic.retention, '1 minute'), '1 minute');
    perform mqpg._require_range('max_payload', coalesce(alter_topic.max_payload, 1), 1, 268435456);
    perform mqpg._require_interval('message_ttl', coalesce(alter_topic.message_ttl, '0'), '0');
    perform mqpg._require_one_of('on_expired', coalesce(alter_topic.on_expired, 'skip'), array['skip', 'dead_letter']);
    perform mqpg._require_interval('lose_after', coalesce(alter_topic.lose_after, '0'), '0');
    perform mqpg._require_range('lose_over', coalesce(alter_topic.lose_over, 0), 0, 9223372036854775807);
    perform mqpg._require_range('max_bytes', coalesce(alter_topic.max_bytes, 0), 0, 9223372036854775807);
    if alter_topic.queues is not null then
        perform mqpg._add_queues(v_topic, alter_topic.queues);
    end if;
    v_timeout := mqpg._apply_lock_timeout();
    update mqpg.topic t set
        retention = coalesce(alter_topic.retention, t.retention),
        max_payload = coalesce(alter_topic.max_payload, t.max_payload),
        message_ttl = nullif(coalesce(mqpg._seconds(alter_topic.message_ttl), t.message_ttl), interval '0'),
        on_expired = coalesce(alter_topic.on_expired, t.on_expired),
        lose_after = nullif(coalesce(mqpg._seconds(alter_topic.lose_after), t.lose_after), interval '0'),
        lose_over = nullif(coalesce(alter_topic.lose_over, t.lose_over), 0),
        checksums = coalesce(alter_topic.checksums, t.checksums),
        max_bytes = nullif(coalesce(alter_topic.max_bytes, t.max_bytes), 0),
        full_of = case when alter_topic.max_bytes is null or t.full_of <> 'topic' then t.full_of end
    where t.topic_id = v_topic.topic_id;
    if not found then
        raise exception using errcode = 'MQ003', message = format('topic %L was dropped meanwhile', alter_topic.topic);
    end if;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;

-- The history of one message, in order of time. No row when nothing is stored of it any more.
-- Arguments:
--   message_id: id of the message.
-- Returns: one row per event, as far back as the history goes:
--   born or prepared: it was sent or prepared.
--   asked, waited, parked, rearmed, settled, expired: its check-back.
--   decided, due, recalled: decisions about it.
--   appended: it got its offset (tick, queue, offset), in its queue or in a retry lane.
--   delivered, done, filtered: for each subscription. What failed is not done.
--   left_out, moved_back: a seek, purge, expiry or policy moved a subscription over it.
--   retry: an attempt failed (with the reason), and the next one is due.
--   dead, redriven, discarded: it became a dead letter, and what became of that.
-- Locks: none. Cost: a few index lookups for each event.
-- Errors: MQ001 (null or negative).
create function mqpg.trace(message_id bigint) returns table (at timestamptz, event text, detail jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_message record;
    v_place record;
    v_topic text;
begin
    perform mqpg._require_range('message_id', trace.message_id, 0, 9223372036854775807);
    select m.* into v_message from mqpg._message(trace.message_id) m;
    if not found then
        perform mqpg._require_fresh(trace.message_id);
    end if;
    if not mqpg._has_right('read', v_message.topic_id) then
        perform mqpg._refuse('may not trace messages of this topic',
            'grant_receive', '{"consumer_group": null, "topic": null}');
    end if;
    select t.name into v_topic from mqpg.topic t where t.topic_id = v_message.topic_id;
    select p.* into v_place
    from mqpg._message_state(trace.message_id, v_message.topic_id, v_message.queue_id, v_message.kind, v_message.xid) p
    where v_message.kind is not null;
    return query
    with way as (
        -- the ways by which subscriptions get the message: the topic's queue, or their retry lane
        select s.subscription_id, s.consumer_group, s.member, v_message.queue_id::int as queue_id, v_place.queue_offset,
            1 as attempt
        from mqpg.subscription s
        where s.topic_id = v_message.topic_id and v_place.queue_offset is not null
        union all
        select s.subscription_id, s.consumer_group, s.member, -1,
            mqpg._offset_in_tick(mqpg._tick_of_transaction(d.xid, d.visible_at), d.topic_id, -1, s.subscription_id,
                trace.message_id),
            d.attempt
        from mqpg.delayed d
        join mqpg.subscription s on s.subscription_id = d.subscription_id
        where d.first_id between trace.message_id - 1023 and trace.message_id and d.first_id + d.n > trace.message_id
    ),
    story as (
        select v_message.born_at as at, case v_message.kind when 'h' then 'prepared' else 'born' end as event,
            jsonb_build_object('topic', v_topic, 'queue_id', v_message.queue_id, 'key', v_message.key,
                'tag', v_message.tag, 'delay', v_message.delay, 'check_at', v_message.check_at,
                'producer_group', (select g.name from mqpg.producer_group g
                    where g.producer_group_id = v_message.producer_group_id),
                'survived', nullif(v_message.survived, false)) as detail, 0 as place
        where v_message.kind is not null
        union all
        select c.at, c.event, jsonb_build_object('by', c.by, 'reason', c.reason), 1
        from mqpg.check_log c where c.message_id = trace.message_id
        union all
        select o.at, case o.op when 'd' then 'due' when 'r' then 'recalled' else 'decided' end,
            jsonb_build_object('decision', case o.op when 'c' then 'commit' when 'b' then 'rollback' end,
                'by', o.decided_by, 'reason', o.reason, 'visible_at', o.visible_at, 'body', o.deliver_id), 2
        from mqpg.op_log o where o.message_id = trace.message_id
        union all
        select t.at, 'appended', jsonb_build_object('tick_id', t.tick_id, 'queue_id', v_message.queue_id,
            'queue_offset', v_place.queue_offset), 3
        from mqpg.tick t where t.tick_id = v_place.tick_id and v_place.queue_offset is not null
        union all
        select t.at, 'appended', jsonb_build_object('tick_id', t.tick_id, 'queue_id', -1,
            'queue_offset', w.queue_offset, 'consumer_group', w.consumer_group), 3
        from way w
        join mqpg.consume_queue c on c.topic_id = v_message.topic_id and c.queue_id = -1
            and c.subscription_id = w.subscription_id and c.base_offset <= w.queue_offset
            and c.base_offset + c.n > w.queue_offset and c.base_offset > w.queue_offset - 8192
        join mqpg.tick t on t.tick_id = c.tick_id
        where w.queue_id = -1
        union all
        select d.at, 'delivered', jsonb_build_object('consumer_group', w.consumer_group, 'queue_id', w.queue_id,
            'queue_offset', w.queue_offset, 'attempt', w.attempt + d.attempt - 1, 'consumer', d.consumer,
            'member', nullif(w.member, ''),
            'lease_until', d.lease_until), 4
        from way w
        cross join lateral mqpg._deliveries_of(w.subscription_id, w.queue_id, w.queue_offset) d
        union all
        select d.failed_at, 'retry', jsonb_build_object('consumer_group', w.consumer_group, 'queue_id', w.queue_id,
            'attempt', w.attempt + d.attempt, 'reason', d.reason), 5
        from way w
        cross join lateral mqpg._deliveries_of(w.subscription_id, w.queue_id, w.queue_offset) d
        where d.failed_at is not null
        union all
        select c.at, case c.action when mqpg._action('filtered') then 'filtered' else 'done' end, jsonb_build_object(
            'consumer_group', w.consumer_group, 'queue_id', w.queue_id, 'queue_offset', w.queue_offset,
            'member', nullif(w.member, '')), 5
        from way w
        cross join lateral mqpg._cursor_eras(w.subscription_id, w.queue_id) e
        join mqpg.cursor c on c.subscription_id = w.subscription_id and c.queue_id = w.queue_id
            and c.version = mqpg._cursor_from(
                w.subscription_id, w.queue_id, w.queue_offset, true, e.from_version, e.to_version)
        where c.action <> all(mqpg._actions('subscribe', 'carried', 'moved', 'expired', 'incarnation'))
        union all
        -- skipped by a seek, a purge, expiry or a policy, or to be delivered again after a seek
        -- back
        select j.at, case when j.back then 'moved_back' else 'left_out' end, jsonb_build_object(
            'consumer_group', w.consumer_group, 'member', nullif(w.member, ''), 'queue_id', w.queue_id,
            'queue_offset', w.queue_offset, 'why', j.why, 'by', j.by), 5
        from way w
        join mqpg.position_jump j on j.subscription_id = w.subscription_id and j.queue_id = w.queue_id
            and j.to_offset > w.queue_offset and j.from_offset <= w.queue_offset
        union all
        select d.written_at, 'retry', jsonb_build_object('consumer_group', s.consumer_group, 'attempt', d.attempt,
            'member', nullif(s.member, ''), 'visible_at', d.visible_at, 'reason', d.reason), 4
        from mqpg.delayed d
        join mqpg.subscription s on s.subscription_id = d.subscription_id
        where d.first_id between trace.message_id - 1023 and trace.message_id and d.first_id + d.n > trace.message_id
            and d.attempt > 1
        union all
        select f.at, f.event, jsonb_build_object('consumer_group', s.consumer_group, 'member', nullif(s.member, ''),
            'attempts', l.attempts, 'reason', case f.event when 'dead' then l.reason end,
            'by', case f.event when 'dead' then null else l.by end), f.place
        from mqpg.former_dead_letter l
        join mqpg.subscription s on s.subscription_id = l.subscription_id
        cross join lateral (values (l.died_at, 'dead', 6), (l.left_at, l.fate, 7)) as f(at, event, place)
        where l.message_id = trace.message_id
        union all
        select d.died_at, 'dead', jsonb_build_object('consumer_group', s.consumer_group, 'attempts', d.attempts,
            'member', nullif(s.member, ''), 'reason', d.reason), 6
        from mqpg.dead_letter d
        join mqpg.subscription s on s.subscription_id = d.subscription_id
        where d.message_id = trace.message_id
    ),
    -- a queue also moves on after an attempt that failed
    judged as (
        select s.*, lag(s.event) over (
            partition by s.detail ->> 'consumer_group', s.detail ->> 'member',
                s.event in ('delivered', 'retry', 'dead', 'done')
            order by s.at, s.place) as before
        from story s
    )
    select j.at, j.event, jsonb_strip_nulls(j.detail) from judged j
    where (j.event = 'done' and j.before in ('retry', 'dead')) is not true
    order by j.at, j.place;
end
$$;

-- Adds queues to a topic. The new number is a multiple of the present one, so that a key stays in its
-- queue or moves to an added one, never from one older queue to another. An added queue is read when
-- the older one has been read up to where the last of its messages may be that were placed by the
-- number before (_open_queues()).
-- Locks: the topic's row, FOR UPDATE, up to the setting lock_timeout, so that no subscription and no
-- member of a broadcast group begins meanwhile; those of _cursor_slot().
-- Cost: two cursor versions for each added queue of each subscription.
-- Errors: MQ001 (not a multiple), 55P03, 40001.
create function mqpg._add_queues(topic mqpg.topic, queues int) returns void
language plpgsql as $$
declare
    v_id int := (_add_queues.topic).topic_id;
    v_timeout text;
    v_before int;
    v_slot int;
begin
    perform mqpg._require_range('queues', _add_queues.queues, 1, 1000);
    v_timeout := mqpg._apply_lock_timeout();
    select t.queues into v_before from mqpg.topic t where t.topic_id = v_id for update;
    perform set_config('lock_timeout', v_timeout, true);
    if v_before is null or v_before = _add_queues.queues then
        return;
    end if;
    if _add_queues.queues % v_before <> 0 then
        raise exception using errcode = 'MQ001', message = format(
            'queues must be a multiple of the present number %s, not %s', v_before, _add_queues.queues),
            hint = 'So each key stays in its queue or moves to an added one. There can be more queues, but not fewer.';
    end if;
    perform mqpg._require_fresh(null);
    insert into mqpg.topic_growth (topic_id, queues_before, queues, first_batch)
    values (v_id, v_before, _add_queues.queues, nextval('mqpg.batch_id'));
    update mqpg.topic t set queues = _add_queues.queues where t.topic_id = v_id;
    v_slot := mqpg._cursor_slot();
    insert into mqpg.cursor (subscription_id, queue_id, slot, version, committed, claimed, at, action, claims)
    select s.subscription_id, q.queue_id, v_slot, 1, 0, 0, clock_timestamp(), mqpg._action('subscribe'), '{}'
    from mqpg.subscription s cross join generate_series(v_before, _add_queues.queues - 1) as q(queue_id)
    where s.topic_id = v_id;
    perform mqpg._note_starts(s.subscription_id, v_before, _add_queues.queues - 1)
    from mqpg.subscription s where s.topic_id = v_id;
    perform mqpg._await_older_queues(s) from mqpg.subscription s
    where s.topic_id = v_id and (s.mode <> 'broadcast' or s.member <> '');
end
$$;

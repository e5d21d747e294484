-- Writes messages into a subscription's dead letters, with all their attempts. The queue_id shown
-- is the topic's queue, also if the message failed in the retry lane. A message that is a dead
-- letter already, because it was delivered again after a seek, stays one dead letter with the
-- attempts of both times. With `limited` no attempt has just failed, but none is left: then the reason
-- is that of the last nack, or `reason` if the last attempt did not end by one.
-- Locks: the new rows.
-- Cost: one row read and one written for each message; see _attempts() for several attempts.
create function mqpg._bury(
    subscription_id int, message_ids bigint [], deliver_ids bigint [], attempts int [], reason text,
    consumer text default null, limited boolean default false
) returns void
language sql as $$
    insert into mqpg.dead_letter as d (
        subscription_id, message_id, deliver_id, queue_id, attempts, reason, history)
    select _bury.subscription_id, u.message_id, u.deliver_id,
        coalesce(
            (select l.queue_id from mqpg.commit_log l where l.batch_id = u.message_id / 1024),
            (select h.queue_id from mqpg.held h where h.message_id = u.message_id), -1),
        u.attempts, case when _bury.limited then h.history -> -1 ->> 'reason' else _bury.reason end, h.history
    from (
        -- A message may be in a retry lane several times, after a seek.
        select a.message_id, min(a.deliver_id) as deliver_id, max(a.attempts) as attempts
        from unnest(_bury.message_ids, _bury.deliver_ids, _bury.attempts) as a(message_id, deliver_id, attempts)
        group by a.message_id
    ) as u
    cross join lateral (select mqpg._attempts(
        _bury.subscription_id, u.message_id, u.attempts, _bury.reason, _bury.consumer, _bury.limited) as history
        offset 0) as h
    on conflict (subscription_id, message_id) do update set
        attempts = excluded.attempts, reason = excluded.reason, died_at = excluded.died_at,
        history = coalesce(d.history, '[]') || coalesce(excluded.history, '[]')
$$;

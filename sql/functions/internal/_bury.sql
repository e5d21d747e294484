-- Writes messages into a subscription's dead letters. `queue_id` shown is the topic's queue, also where the
-- message died in the retry lane.
-- Locks: the new rows. Cost: one row read and one written a message.
create function mqpg._bury(
    subscription_id int, message_ids bigint [], deliver_ids bigint [], attempts int [], reason text
) returns void
language sql as $$
    insert into mqpg.dead_letter (subscription_id, message_id, deliver_id, queue_id, attempts, reason)
    select _bury.subscription_id, u.message_id, u.deliver_id,
        coalesce(
            (select l.queue_id from mqpg.commit_log l where l.batch_id = u.message_id / 1024),
            (select h.queue_id from mqpg.held h where h.message_id = u.message_id), -1),
        u.attempts, _bury.reason
    from unnest(_bury.message_ids, _bury.deliver_ids, _bury.attempts) as u(message_id, deliver_id, attempts)
    on conflict (subscription_id, message_id) do update set
        attempts = excluded.attempts, reason = excluded.reason, died_at = excluded.died_at
$$;
comment on function mqpg._bury(int, bigint [], bigint [], int [], text) is 'Internal: write dead letters';

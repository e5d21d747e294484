-- Whether the consumer that owns a pinned queue seems to be gone: no consumer process of its name
-- is alive, and it has done nothing with the queue for so long, or its process ended after that. A
-- program that runs its consumer by itself has no row in worker_status.
-- Locks: none. Cost: one row for each worker.
create function mqpg._owner_is_gone(
    consumer_group text, topic text, owner text, changed_at timestamptz, silence interval
) returns boolean
language sql stable as $$
    select coalesce(not bool_or(w.alive), true) and (
        _owner_is_gone.changed_at < clock_timestamp() - _owner_is_gone.silence
        or coalesce(bool_or(w.seen_at > _owner_is_gone.changed_at - interval '1 second'), false))
    from mqpg.worker_status w
    where w.role = 'consumer' and w.detail ->> 'consumer' = _owner_is_gone.owner
        and w.detail ->> 'consumer_group' = _owner_is_gone.consumer_group
        and w.detail ->> 'topic' = _owner_is_gone.topic
$$;

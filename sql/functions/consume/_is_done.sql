-- Whether each message of a delivery whose claim is gone was acknowledged or nacked. Not so if it
-- was released or taken over, if a nack with on_failure block_key or block_queue gave messages back
-- with the one that failed, or if the history since the claim is dropped.
-- Arguments:
--   subscription_id, queue_id, epoch: those of the receipt.
--   action: of the version that ended the claim.
-- Locks: none. Cost: the cursor's versions since the claim; only where a claim is gone.
create function mqpg._is_done(subscription_id int, queue_id int, epoch bigint, action "char") returns boolean
language sql stable as $$
    select _is_done.action = any(mqpg._actions('ack', 'nack', 'ack_and_receive')) and exists (
        select from mqpg.cursor i
        cross join lateral unnest(i.claims) j
        where i.subscription_id = _is_done.subscription_id and i.queue_id = _is_done.queue_id
            and i.version = _is_done.epoch / 1048576 and j.epoch = _is_done.epoch
            and not exists (
                select from mqpg.cursor c
                cross join lateral unnest(c.claims) k
                cross join lateral generate_series(
                    greatest(j.from_offset, k.from_offset), least(j.to_offset, k.to_offset) - 1) o
                where c.subscription_id = i.subscription_id and c.queue_id = i.queue_id and c.version > i.version
                    and c.epoch = _is_done.epoch and c.failed is not null and k.epoch is distinct from _is_done.epoch
                    and o <> all(coalesce(j.settled, '{}') || coalesce(k.settled, '{}'))
                    and o = any(coalesce(j.picked, array[o])) and o = any(coalesce(k.picked, array[o]))
                    and not exists (
                        select from mqpg.cursor f
                        where f.subscription_id = i.subscription_id and f.queue_id = i.queue_id
                            and f.version > i.version and f.epoch = _is_done.epoch and o = any(f.failed))))
$$;

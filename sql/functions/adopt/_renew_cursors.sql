-- Writes two new versions of each cursor in which no consumer holds a claim. The first is the next
-- one, and the second is 2^32 greater, so that no receipt of a delivery that the copy does not know
-- can match. A call that has read the cursor before, and waits to write, would write the first. It
-- fails and tries again, because a version is unique. What was in flight may be received at once,
-- with its attempts counted. Pinned queues keep their owners.
-- Locks: the caller has locked the table against writers. Cost: two rows per cursor.
create function mqpg._renew_cursors() returns void
language sql as $$
    insert into mqpg.cursor (
        version, committed, claimed, at, epoch, subscription_id, slot, queue_id, action, owner, claims)
    select k.version + v.further, k.committed, k.claimed, clock_timestamp(), null, k.subscription_id, k.slot,
        k.queue_id, mqpg._action('incarnation'), k.owner,
        array(select mqpg._free_claim(c, k, c.attempt) from unnest(k.claims) c order by (c).from_offset)
    from mqpg.subscription s
    join mqpg.topic t on t.topic_id = s.topic_id
    cross join lateral generate_series(-1, t.queues - 1) as q(queue_id)
    cross join lateral mqpg._newest_cursor(s.subscription_id, q.queue_id) as k
    cross join (values (1), (1 + 4294967296)) as v(further)
$$;

-- Where the bodies of a group's messages lie that are dead letters or wait for their next attempt: in
-- the retry lane, or at their place in this queue. For the retry lane (-1) it leaves out the latter.
-- A retry that was written an hour before it could be seen counts as appended.
-- Locks: none. Cost: one look at each, and at each delayed message and retry of the broker.
create function mqpg._failed_messages(subscription mqpg.subscription, queue_id int) returns setof bigint
language sql stable as $$
    select d.deliver_id from mqpg.dead_letter d
    where d.subscription_id = (_failed_messages.subscription).subscription_id
    union all
    select coalesce(r.deliver_id, r.first_id) + i
    from mqpg.delayed r
    cross join lateral generate_series(0, r.n - 1) i
    where r.subscription_id = (_failed_messages.subscription).subscription_id
        and r.visible_at > (select t.due_until - interval '1 hour' from mqpg.tick t order by t.tick_id desc limit 1)
        and r.written_at >= (_failed_messages.subscription).retries_from
        and mqpg._tick_of_transaction(r.xid, r.visible_at) is null
    union all
    select c.deliver_id
    from mqpg._newest_cursor((_failed_messages.subscription).subscription_id, -1) k
    cross join lateral mqpg._claimed_messages(
        (_failed_messages.subscription).topic_id, -1, (_failed_messages.subscription).subscription_id,
        row(null, k.committed, 9223372036854775807, 1, null, null, null, null, null)) c
    where not mqpg._is_passed(k, c.queue_offset)
    union all
    select c.deliver_id
    from mqpg._newest_cursor((_failed_messages.subscription).subscription_id, _failed_messages.queue_id) k
    cross join lateral unnest(k.claims) u
    cross join lateral mqpg._claimed_messages((_failed_messages.subscription).topic_id, k.queue_id, 0, u) c
    where k.queue_id >= 0 and u.epoch < 0
$$;

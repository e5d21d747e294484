-- Messages with an id from from_id to to_id - 1 that must stay readable, with the reason (I11). One
-- message may be returned several times. The id of a body that is stored elsewhere (a final
-- payload) counts like the message's own.
-- why: undecided: a half message, parked or not. delayed, retry: not appended yet. committed:
-- decided, not appended yet. queued: its offset is not below the oldest one of its queue; in a
-- retry lane, it is not done yet. dead: a dead letter.
-- It reads only consume_queue rows of ticks after after_tick and stops after `most` rows. It is one
-- statement, so that it sees a message on its way from one state to the next in one of them.
-- With `since` it looks again at a closed segment: it reads no half messages, which were undecided
-- at the first look already, and of delayed and op_log only rows with an xid from `since` on.
-- Locks: none.
-- Cost: the segment's half messages, delayed, and the rows of consume_queue after after_tick.
create function mqpg._survivors(from_id bigint, to_id bigint, after_tick bigint, most bigint, since xid8 default null)
returns table (message_id bigint, why text)
language sql stable as $$
    with newest as materialized (
        select t.snapshot, t.due_until from mqpg.tick t order by t.tick_id desc limit 1
    ),
    half as (
        select (l.batch_id << 10) + i.i as message_id
        from mqpg.commit_log l
        join mqpg.topic t on t.topic_id = l.topic_id
        cross join lateral generate_series(0, l.n - 1) as i(i)
        where _survivors.since is null and l.kind = 'h'
            and l.batch_id >= _survivors.from_id >> 10 and l.batch_id < (_survivors.to_id + 1023) >> 10
        union all
        select h.message_id
        from mqpg.held h
        join mqpg.topic t on t.topic_id = h.topic_id
        where _survivors.since is null and h.kind = 'h' and h.message_id >= _survivors.from_id and h.message_id < _survivors.to_id
    )
    select s.message_id, s.why
    from (
        select id.message_id, 'queued' as why
        from mqpg.consume_queue c
        join mqpg.topic t on t.topic_id = c.topic_id
        left join mqpg.subscription b on b.subscription_id = c.subscription_id
        left join mqpg.queue_tail f on f.topic_id = c.topic_id and f.queue_id = c.queue_id and f.subscription_id = 0
            and c.subscription_id = 0
        cross join lateral (
            select u.first_id, u.deliver_id, u.start,
                coalesce(lead(u.start) over (order by u.start), c.n) - u.start as n
            from unnest(c.first_ids, c.starts, c.deliver_ids) as u(first_id, start, deliver_id)
        ) as r
        cross join lateral generate_series(0, r.n - 1) as i(i)
        cross join lateral (values (r.first_id + i.i), (r.deliver_id + i.i)) as id(message_id)
        where c.tick_id > _survivors.after_tick
            and c.base_offset + r.start + i.i >= coalesce(f.oldest_offset, 0)
            and ((r.first_id < _survivors.to_id and r.first_id + r.n > _survivors.from_id)
                or (r.deliver_id < _survivors.to_id and r.deliver_id + r.n > _survivors.from_id))
            and (c.subscription_id = 0 or (b.subscription_id is not null and c.base_offset + c.n > (
                select k.committed from mqpg.cursor k
                where k.subscription_id = c.subscription_id and k.queue_id = -1 order by k.version desc limit 1)))
        union all
        select half.message_id, 'undecided'
        from half
        where not exists (
            select from mqpg.op_log o
            where o.message_id = half.message_id and o.stage = 0
                and o.message_id >= _survivors.from_id and o.message_id < _survivors.to_id)
        union all
        select id.message_id, case when d.subscription_id = 0 then 'delayed' else 'retry' end
        from mqpg.delayed d
        join mqpg.topic t on t.topic_id = d.topic_id
        left join newest on true
        cross join lateral generate_series(0, d.n - 1) as i(i)
        cross join lateral (values (d.first_id + i.i), (d.deliver_id + i.i)) as id(message_id)
        where ((d.first_id < _survivors.to_id and d.first_id + d.n > _survivors.from_id)
                or (d.deliver_id < _survivors.to_id and d.deliver_id + d.n > _survivors.from_id))
            and d.xid >= coalesce(_survivors.since, '0')
            and (d.subscription_id = 0 or exists (
                select from mqpg.subscription b
                where b.subscription_id = d.subscription_id and b.retries_from <= d.written_at))
            and (newest.snapshot is null or d.visible_at > newest.due_until
                or not pg_visible_in_snapshot(d.xid, newest.snapshot))
            and not (d.subscription_id = 0 and exists (
                select from mqpg.op_log o where o.message_id = d.first_id + i.i and o.stage = 1 and o.op = 'r'))
        union all
        select id.message_id, 'committed'
        from mqpg.op_log o
        join mqpg.topic t on t.topic_id = o.topic_id
        left join newest on true
        cross join lateral (values (o.message_id), (o.deliver_id)) as id(message_id)
        where o.op = 'c' and o.visible_at is null
            and o.xid >= greatest((select pg_snapshot_xmin(x.snapshot) from newest x), _survivors.since, '0')
            and (newest.snapshot is null or not pg_visible_in_snapshot(o.xid, newest.snapshot))
        union all
        select id.message_id, 'dead'
        from mqpg.dead_letter d
        cross join lateral (values (d.message_id), (d.deliver_id)) as id(message_id)
    ) as s
    where s.message_id >= _survivors.from_id and s.message_id < _survivors.to_id
    limit _survivors.most
$$;

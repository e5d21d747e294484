-- The queues from first_queue to last_queue in which receive() may find something, the one that
-- waited longest first and last_served last: those with messages behind `claimed`, and those with
-- claims, whatever these are. `version`, `slot` and `action` are those of the newest version of the
-- cursor, and `at` its time. If the server's clock was ahead then, the queue comes first, because it
-- would come last for so long. A queue that another consumer owns is left out; the retry lane has no
-- owner.
-- `tail` is the queue's next offset, as _tail() gives it, or a lower one that is at least `most`
-- behind `claimed`. The last columns are those of the row in which the message before it is, null if
-- that is noted only. So if one row has all that a call claims, it is looked up once.
-- The ends of queues are noted in queue_tail when a tick segment is closed, so newer rows can only
-- be in the segments without a note: their ticks are from_tick to to_tick. The caller names both as
-- variables, so that the executor opens only these partitions. An end may be one that has just been
-- passed, but never one beyond the last message.
-- It is meant to be inlined into the query of a cursor, which fetches one row at a time. The ends
-- of queues are then looked up in the order in which they waited, and no further than necessary.
-- The subqueries behind ORDER BY and OFFSET 0 keep the planner from looking up more than that.
-- Locks: none. Cost: one index lookup for each cursor; one or two for each end that is looked up.
create function mqpg._queues_with_messages(
    topic_id int, subscription_id int, consumer text, first_queue int, last_queue int, from_tick bigint, to_tick bigint,
    most int, last_served int default null
) returns table (
    queue_id int, claimed bigint, claims mqpg.claim [], tail bigint, version bigint, slot int, action "char",
    base_offset bigint, first_ids bigint [], starts int [], deliver_ids bigint [], attempts smallint [],
    at timestamptz
)
language sql stable as $$
    select w.queue_id, w.claimed, w.claims, e.tail, w.version, w.slot, w.action, r.base_offset, r.first_ids, r.starts,
        r.deliver_ids, r.attempts, w.at
    from (
        select q.queue_id, c.claimed, c.claims, c.version, c.slot, c.action, c.at,
            case q.queue_id when -1 then _queues_with_messages.subscription_id else 0 end as lane_of
        from generate_series(_queues_with_messages.first_queue, _queues_with_messages.last_queue) as q(queue_id)
        cross join lateral (
            select k.claimed, k.at, k.owner, k.claims, k.version, k.slot, k.action from mqpg.cursor k
            where k.subscription_id = _queues_with_messages.subscription_id and k.queue_id = q.queue_id::smallint
            order by k.version desc limit 1
        ) as c
        where c.owner is null or c.owner = _queues_with_messages.consumer or q.queue_id = -1
        order by case
            when q.queue_id = _queues_with_messages.last_served then 'infinity'
            when c.at > statement_timestamp() + interval '1 minute' then '-infinity'
            else c.at
        end
    ) as w
    left join lateral (
        select c.base_offset, c.n, c.first_ids, c.starts, c.deliver_ids, c.attempts
        from mqpg.consume_queue c
        where c.topic_id = _queues_with_messages.topic_id and c.queue_id = w.queue_id::smallint
            and c.subscription_id = w.lane_of and c.base_offset < w.claimed + _queues_with_messages.most
            and c.tick_id between _queues_with_messages.from_tick and _queues_with_messages.to_tick
        order by c.base_offset desc limit 1
    ) as r on true
    cross join lateral (
        select coalesce(
            r.base_offset + r.n,
            (
                select t.next_offset from mqpg.queue_tail t
                where t.topic_id = _queues_with_messages.topic_id and t.queue_id = w.queue_id::smallint
                    and t.subscription_id = w.lane_of
            ), 0) as tail
        offset 0
    ) as e
    where w.claimed < e.tail or cardinality(w.claims) > 0
$$;

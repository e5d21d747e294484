-- The queues from first_queue to last_queue in which receive() may find something, the one that
-- waited longest first and last_served last: those with messages behind `claimed`, and those with
-- claims, whatever these are. `version`, `slot` and `action` are those of the newest version of the
-- cursor. A queue that another consumer owns is left out; the retry lane has no
-- owner. `tail` is the queue's next offset, as _tail() gives it, and `lane` the subscription under
-- which its rows are stored.
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
    last_served int default null
) returns table (
    queue_id int, lane int, claimed bigint, claims mqpg.claim [], tail bigint, version bigint, slot int, action "char"
)
language sql stable as $$
    select w.queue_id, w.lane, w.claimed, w.claims, e.tail, w.version, w.slot, w.action
    from (
        select q.queue_id, c.claimed, c.claims, c.version, c.slot, c.action,
            case q.queue_id when -1 then _queues_with_messages.subscription_id else 0 end as lane
        from generate_series(_queues_with_messages.first_queue, _queues_with_messages.last_queue) as q(queue_id)
        cross join lateral (
            select k.claimed, k.at, k.owner, k.claims, k.version, k.slot, k.action from mqpg.cursor k
            where k.subscription_id = _queues_with_messages.subscription_id and k.queue_id = q.queue_id::smallint
            order by k.version desc limit 1
        ) as c
        where c.owner is null or c.owner = _queues_with_messages.consumer or q.queue_id = -1
        order by case q.queue_id when _queues_with_messages.last_served then 'infinity' else c.at end
    ) as w
    cross join lateral (
        select coalesce(
            (
                select r.base_offset + r.n from mqpg.consume_queue r
                where r.topic_id = _queues_with_messages.topic_id and r.queue_id = w.queue_id::smallint
                    and r.subscription_id = w.lane
                    and r.tick_id between _queues_with_messages.from_tick and _queues_with_messages.to_tick
                order by r.base_offset desc limit 1
            ),
            (
                select t.next_offset from mqpg.queue_tail t
                where t.topic_id = _queues_with_messages.topic_id and t.queue_id = w.queue_id::smallint
                    and t.subscription_id = w.lane
            ), 0) as tail
        offset 0
    ) as e
    where w.claimed < e.tail or cardinality(w.claims) > 0
$$;

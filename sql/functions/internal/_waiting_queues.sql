-- The queues of a subscription that a consumer may receive from now, the one that waited longest first.
-- A hint only: receive() looks again once it has the queue's lock.
-- Locks: none. Cost: a look at each queue's cursor and tail.
create function mqpg._waiting_queues(subscription mqpg.subscription, queues int, consumer text, queue_id int)
returns int []
language plpgsql volatile as $$
declare
    v_subscription_id int := (_waiting_queues.subscription).subscription_id;
    v_topic_id int := (_waiting_queues.subscription).topic_id;
begin
    return array(
        select q.queue_id
        from generate_series(
            coalesce(_waiting_queues.queue_id, -1),
            coalesce(_waiting_queues.queue_id, _waiting_queues.queues - 1)) as q(queue_id)
        cross join lateral (
            select k.claimed, k.at, k.owner, k.claims from mqpg.cursor k
            where k.subscription_id = v_subscription_id and k.queue_id = q.queue_id
            order by k.version desc limit 1
        ) as c
        where (c.owner is null or c.owner = _waiting_queues.consumer)
            and case
                when c.claims = '{}' then c.claimed < mqpg._tail(
                    v_topic_id, q.queue_id, case q.queue_id when -1 then v_subscription_id else 0 end)
                else not mqpg._is_busy(c.claims, c.owner)
            end
        order by c.at);
end
$$;
comment on function mqpg._waiting_queues(mqpg.subscription, int, text, int)
    is 'Internal: queues that may be received from, longest waiting first';

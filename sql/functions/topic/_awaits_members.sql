-- Whether a topic has messages for a broadcast group that nobody has joined yet. Its first member
-- would get them, although no member has a position.
-- Locks: none. Cost: a look at each queue of each such group.
create function mqpg._awaits_members(topic mqpg.topic) returns boolean
language sql stable as $$
    select exists (
        select from mqpg.subscription s
        cross join generate_series(0, (_awaits_members.topic).queues - 1) as q(queue_id)
        where s.topic_id = (_awaits_members.topic).topic_id and s.mode = 'broadcast' and s.member = ''
            and not exists (select from mqpg.subscription m where m.member_of = s.subscription_id)
            and mqpg._tail(s.topic_id, q.queue_id, 0) > greatest(
                (mqpg._cursor(s.subscription_id, q.queue_id)).committed, mqpg._oldest(s.topic_id, q.queue_id, 0)))
$$;

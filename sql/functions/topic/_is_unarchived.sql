-- Whether a topic has rows that are not archived: messages, decisions or offsets. Rows of segments
-- that are not closed count too.
-- Locks: none. Cost: reads the segments that are not archived until it finds such a row.
create function mqpg._is_unarchived(topic_id int) returns boolean
language sql stable as $$
    select exists (
        select from mqpg.segment s
        cross join lateral mqpg._unarchived('commit_log', s.lower_bound, s.upper_bound) u
        where s.family = 'log' and s.opened_at is not null and s.body_dropped_at is null and exists (
            select from mqpg.commit_log l
            where l.topic_id = _is_unarchived.topic_id
                and l.batch_id >= u.from_bound::bigint and l.batch_id < u.to_bound::bigint)
    ) or exists (
        select from mqpg.segment s
        cross join lateral mqpg._unarchived(
            'op_log', mqpg._scaled_bound(s.lower_bound, 1024), mqpg._scaled_bound(s.upper_bound, 1024)) u
        where s.family = 'log' and s.opened_at is not null and s.dropped_at is null and exists (
            select from mqpg.op_log o
            where o.topic_id = _is_unarchived.topic_id
                and o.message_id >= u.from_bound::bigint and o.message_id < u.to_bound::bigint)
    ) or exists (
        select from mqpg.segment s
        cross join lateral mqpg._unarchived('consume_queue', s.lower_bound, s.upper_bound) u
        where s.family = 'tick' and s.opened_at is not null and s.body_dropped_at is null and exists (
            select from mqpg.consume_queue q
            where q.topic_id = _is_unarchived.topic_id
                and q.tick_id >= u.from_bound::bigint and q.tick_id < u.to_bound::bigint)
    )
$$;

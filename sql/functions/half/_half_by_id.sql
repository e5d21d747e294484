-- What is stored of a half message, without its body; also when its segment was dropped.
-- Locks: none. Cost: one index lookup.
create function mqpg._half_by_id(message_id bigint) returns table (
    topic_id int, producer_group_id int, incarnation int, nonce uuid, born_at timestamptz, check_at timestamptz
)
language sql stable as $$
    select l.topic_id, l.producer_group_id, l.incarnation, l.nonce, l.born_at, l.check_at
    from mqpg.commit_log l where l.batch_id = _half_by_id.message_id / 1024
    union all
    select h.topic_id, h.producer_group_id, h.incarnation, h.nonce, h.born_at, h.check_at
    from mqpg.held h where h.message_id = _half_by_id.message_id and h.kind = 'h'
    limit 1
$$;

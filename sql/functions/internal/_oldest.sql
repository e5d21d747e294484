-- The oldest offset of a queue that can still be read; its next one where nothing is left.
-- Locks: none. Cost: one index lookup a partition. (plpgsql, not sql: its plans are kept.)
create function mqpg._oldest(topic_id int, queue_id int, subscription_id int) returns bigint
language plpgsql stable as $$
declare
    v_oldest bigint;
begin
    select c.base_offset into v_oldest
    from mqpg.consume_queue c
    where c.topic_id = _oldest.topic_id and c.queue_id = _oldest.queue_id
        and c.subscription_id = _oldest.subscription_id
    order by c.base_offset limit 1;
    return coalesce(v_oldest, mqpg._tail(_oldest.topic_id, _oldest.queue_id, _oldest.subscription_id));
end
$$;
comment on function mqpg._oldest(int, int, int) is 'Internal: oldest readable offset of a queue';

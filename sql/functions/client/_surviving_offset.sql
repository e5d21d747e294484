-- How far a queue is still the one that a consumer has read, who stores its offset in its own
-- database. A promotion or a restore cuts the end of a queue off, and gives its offsets again.
-- `surviving` is the first offset that was given after the adoption that ended that incarnation, so
-- that every smaller one has the message that it had; null if none has ended it. next_offset is the
-- queue's next offset now.
-- Locks: none. Cost: one index lookup for each partition since that adoption.
create function mqpg._surviving_offset(
    consumer_group text, topic text, queue_id int, incarnation int, out surviving bigint, out next_offset bigint
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_topic_id int := (mqpg._require_subscription(_surviving_offset.consumer_group, _surviving_offset.topic)).topic_id;
    v_tick_id bigint;
begin
    select b.adoption_ticks[cardinality(b.adoption_ticks) - b.incarnation + _surviving_offset.incarnation + 1]
    into v_tick_id
    from mqpg.broker b where b.incarnation > _surviving_offset.incarnation;
    _surviving_offset.next_offset := mqpg._tail(v_topic_id, _surviving_offset.queue_id, 0);
    if v_tick_id is not null then
        _surviving_offset.surviving := coalesce((
            select c.base_offset from mqpg.consume_queue c
            where c.topic_id = v_topic_id and c.queue_id = _surviving_offset.queue_id and c.subscription_id = 0
                and c.tick_id > v_tick_id
            order by c.base_offset limit 1
        ), _surviving_offset.next_offset);
    end if;
end
$$;

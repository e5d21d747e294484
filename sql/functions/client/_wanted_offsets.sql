-- The offsets from from_offset to to_offset - 1 that a consumer with its own database has to apply:
-- those that its subscription's filter chooses, and that it was not moved over on purpose.
-- Locks: none. Cost: at most 100000 offsets; negligible without a filter; with one it reads the bodies.
create function mqpg._wanted_offsets(
    consumer_group text, topic text, queue_id int, from_offset bigint, to_offset bigint
) returns setof bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_subscription(_wanted_offsets.consumer_group, _wanted_offsets.topic);
    if _wanted_offsets.to_offset - _wanted_offsets.from_offset > 100000 then
        raise exception using errcode = 'MQ001',
            message = 'to_offset must be at most 100000 after from_offset';
    end if;
    return query
    select o.queue_offset
    from mqpg.subscription s
    join mqpg.topic t on t.topic_id = s.topic_id
    cross join lateral (select case when s.filter is not null or s.tags is not null then (mqpg._matching_offsets(
        s, _wanted_offsets.queue_id, _wanted_offsets.from_offset, _wanted_offsets.to_offset)).offsets end
    ) as c (offsets)
    -- Not a comparison of each offset with each chosen one, which would be 5 * 10^9.
    cross join lateral unnest(coalesce(c.offsets, array(
        select generate_series(_wanted_offsets.from_offset, _wanted_offsets.to_offset - 1)))) as o (queue_offset)
    where s.consumer_group = _wanted_offsets.consumer_group and t.name = _wanted_offsets.topic and s.member = ''
        and not exists (
            select from mqpg.position_jump j
            where j.subscription_id = s.subscription_id and j.queue_id = _wanted_offsets.queue_id and not j.back
                and o.queue_offset >= j.from_offset and o.queue_offset < j.to_offset)
    order by 1;
end
$$;

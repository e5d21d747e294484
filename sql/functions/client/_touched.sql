-- The names of the topics that later ticks or moves of positions touched.
-- Locks: none. Cost: one row for each later tick and move.
create function mqpg._touched(after_tick bigint, after_jump bigint) returns setof text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select t.name
    from mqpg.topic t
    where (
            t.topic_id in (
                select u.topic_id from mqpg.tick k cross join lateral unnest(k.topic_ids) as u (topic_id)
                where k.tick_id > _touched.after_tick)
            or t.name in (select j.topic from mqpg.position_jump j where j.jump_id > _touched.after_jump))
        and (mqpg._is_among(t.readers) or mqpg._has_right('read', t.topic_id));
end
$$;

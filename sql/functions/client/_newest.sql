-- The newest tick and the newest move of a position. A seek makes no tick and no notification, but
-- it is recorded.
-- Locks: none. Cost: two index lookups per partition.
create function mqpg._newest() returns table (tick bigint, jump bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select (select coalesce(max(k.tick_id), 0) from mqpg.tick k),
        (select coalesce(max(j.jump_id), 0) from mqpg.position_jump j);
end
$$;

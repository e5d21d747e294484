-- Steps of the server's clock within seven days, the newest first, and the one that still counts.
-- Locks: none. Cost: reads a small table.
create function mqpg._clock_steps()
returns table (at timestamptz, by interval, ahead interval, dead_letters bigint)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select s.at, s.by, s.ahead, s.dead_letters from mqpg.clock_step s
    where s.at > clock_timestamp() - interval '7 days' or s.ahead > '0' and s.step_id = (select max(n.step_id) from mqpg.clock_step n)
    order by s.step_id desc;
end
$$;

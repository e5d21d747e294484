-- Why append() refuses to work in this database; null if it does not.
-- Locks: none. Cost: that of _require_own_database().
create function mqpg._append_refusal() returns text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    perform mqpg._require_own_database((select t.snapshot from mqpg.tick t order by t.tick_id desc limit 1));
    return null;
exception when sqlstate 'MQ016' then
    return sqlerrm;
end
$$;

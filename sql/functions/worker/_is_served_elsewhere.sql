-- Whether another compensator would take over a ledger in another database.
-- Locks: none. Cost: one row for each worker.
create function mqpg._is_served_elsewhere(checker_target text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker');
    return exists (
        select from mqpg.worker w
        where w.role = 'compensator' and w.state <> 'stopped' and w.seen_at > clock_timestamp() - interval '30 seconds'
            and w.detail #>> array['ledgers', _is_served_elsewhere.checker_target, 'state'] = 'standby');
end
$$;

-- Which of these ledgers in other databases a compensator serves at this moment. A compensator that
-- is gone no longer counts, because its lock ended with its session.
-- Locks: none. Cost: one look at all locks of the server.
create function mqpg._ledgers_served(checker_targets text []) returns setof text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return query
    select t.checker_target
    from unnest(_ledgers_served.checker_targets) as t(checker_target)
    where mqpg._ledger_lock(t.checker_target) in (
        select k.objid::bigint from pg_locks k
        where k.locktype = 'advisory' and k.classid = 1836150846 and k.objsubid = 2 and k.granted
            and k.database = (select d.oid from pg_database d where d.datname = current_database()));
end
$$;

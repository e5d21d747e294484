-- Merges of closed segments that open transactions hold up, and the sessions that do. Which these
-- are depends on the step: transactions that are older than the merge, sessions whose snapshot is
-- older than the copies, and those that use one of the tables, which the last step locks. Where
-- transactions overlap all the time the latter are others at each look.
-- Locks: none. Cost: reads the server's lists of sessions and of locks once.
create function mqpg._blocked_merges() returns table (
    family text, segment_no bigint, table_name text, since timestamptz, blocked_by int []
)
language sql stable as $$
    select m.family, m.segment_nos[1], f.parent, m.blocked_since, case
        when m.parent = '' then array(
            select distinct l.pid from pg_locks l
            where l.locktype = 'transactionid' and l.granted and l.mode = 'ExclusiveLock' and l.pid <> pg_backend_pid()
                and age(l.transactionid) >= age((m.copied_xid::text::bigint % 4294967296)::text::xid)
            order by 1)
        else array(
            select o.pid from mqpg._older_snapshots(m.copied_xid) as o(pid)
            union
            select l.pid
            from mqpg._family_tables(m.family) t
            join pg_locks l on l.relation = to_regclass('mqpg.' || t.parent)::oid
            where l.locktype = 'relation' and l.granted and l.pid <> pg_backend_pid()
                and l.database = (select d.oid from pg_database d where d.datname = current_database())
            order by 1)
        end
    from mqpg.segment_merge m
    cross join lateral (select t.parent from mqpg._family_tables(m.family) t limit 1) f
    where m.blocked_since is not null
$$;

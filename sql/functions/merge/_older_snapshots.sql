-- The sessions with a snapshot from before a transaction: they may not see what it wrote. They
-- include those of a standby that sends its snapshots, and leave out vacuum, which reads no rows
-- for anybody. Every role sees these columns of pg_stat_activity.
-- Locks: none. Cost: reads the server's list of sessions once.
create function mqpg._older_snapshots(xid xid8) returns setof int
language sql volatile as $$
    select a.pid
    from pg_stat_activity a
    where a.pid <> pg_backend_pid() and a.backend_xmin is not null
        -- null: a standby that sends its snapshots
        and (a.datname = current_database() or a.datname is null)
        and a.usesysid is not null      -- null: vacuum
        and age(a.backend_xmin) >= age((_older_snapshots.xid::text::bigint % 4294967296)::text::xid)
    order by a.pid
$$;

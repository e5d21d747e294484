-- Ticks of the op-log queue: which half messages were looked at, append-only. It works by the
-- appender's snapshot rule, with ticks of its own. The functions call that queue the check queue.
create table mqpg.half_tick (
    half_tick_id bigint not null primary key,
    xid xid8 not null,  -- The transaction itself, which got its xid after batch_seq was read; see tick
    snapshot pg_snapshot not null,  -- Half messages visible in it are decided or have an entry in the op-log queue
    snapshot_xmax xid8 not null,  -- pg_snapshot_xmax(snapshot), for the index
    batch_seq bigint not null,  -- The batch id sequence, read before the snapshot was taken
    floor_id bigint not null,  -- New half messages have greater batch ids
    entries bigint not null,  -- Number of entries that were written
    at timestamptz not null
) partition by range (half_tick_id);
create index half_tick_snapshot_xmax on mqpg.half_tick (snapshot_xmax);
create index half_tick_xid on mqpg.half_tick (xid);

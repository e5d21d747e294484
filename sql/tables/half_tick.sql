-- Ticks of the op-log queue: which half messages were looked at, append-only. It works by the
-- appender's snapshot rule, with ticks of its own. The functions call that queue the check queue.
create table mqpg.half_tick (
    half_tick_id bigint not null primary key,
    xid xid8 not null,
    snapshot pg_snapshot not null,
    snapshot_xmax xid8 not null,
    batch_seq bigint not null,
    floor_id bigint not null,
    entries bigint not null,
    at timestamptz not null
) partition by range (half_tick_id);
comment on column mqpg.half_tick.xid is 'The transaction itself, which got its xid after batch_seq was read; see tick';
comment on column mqpg.half_tick.snapshot is
    'Half messages visible in it are decided or have an entry in the op-log queue';
comment on column mqpg.half_tick.snapshot_xmax is 'pg_snapshot_xmax(snapshot), for the index';
comment on column mqpg.half_tick.batch_seq is 'The batch id sequence, read before the snapshot was taken';
comment on column mqpg.half_tick.floor_id is 'New half messages have greater batch ids';
comment on column mqpg.half_tick.entries is 'Number of entries that were written';
create index half_tick_snapshot_xmax on mqpg.half_tick (snapshot_xmax);
create index half_tick_xid on mqpg.half_tick (xid);

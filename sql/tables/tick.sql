-- One row for each pass of the appender that moved something; the newest is the appender's whole state.
create table mqpg.tick (
    tick_id bigint not null primary key,
    xid xid8 not null,              -- the pass's own, taken after batch_seq was read
    snapshot pg_snapshot not null,  -- rows visible in it have their offsets
    snapshot_xmax xid8 not null,
    batch_seq bigint not null,      -- the batch id sequence, read before the snapshot was taken
    floor_id bigint not null,       -- rows that the next pass may append have greater batch ids
    due_until timestamptz not null, -- delayed messages up to here are appended
    messages bigint not null,
    topic_ids int [] not null,
    at timestamptz not null
) partition by range (tick_id);
comment on table mqpg.tick is 'Passes of the appender: snapshot, floor, due time';
create index tick_snapshot_xmax on mqpg.tick (snapshot_xmax);
-- An xid given out by then may lie above snapshot_xmax, which is only the newest finished one plus one; so
-- batch ids up to batch_seq are known to be finished when all xids below the pass's own are.
create index tick_xid on mqpg.tick (xid);

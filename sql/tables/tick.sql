-- Ticks of the appender: snapshot, floor and due time, append-only. One row for each call of
-- append() that moved something. The newest row is the appender's whole state.
create table mqpg.tick (
    tick_id bigint not null primary key,
    xid xid8 not null,  -- The appending transaction, which got its xid after batch_seq was read
    snapshot pg_snapshot not null,  -- All rows visible in it have their offsets
    snapshot_xmax xid8 not null,  -- pg_snapshot_xmax(snapshot), for the index
    batch_seq bigint not null,  -- The batch id sequence, read before the snapshot was taken
    floor_id bigint not null,  -- Rows that a later append() may append have greater batch ids
    due_until timestamptz not null,  -- Delayed messages up to this time are appended
    messages bigint not null,  -- Number of messages appended
    topic_ids int [] not null,  -- Topics that got messages
    at timestamptz not null
) partition by range (tick_id);
create sequence mqpg.tick_mark as bigint minvalue 0 start 0 cache 1;
comment on sequence mqpg.tick_mark is
    'The newest tick_id, or a greater one: a statement that names it opens no partitions of later ticks';
create index tick_snapshot_xmax on mqpg.tick (snapshot_xmax);
-- snapshot_xmax is the newest finished xid plus one, so a running transaction may have a greater
-- xid. Batch ids up to batch_seq are therefore known to be finished only when all xids below this
-- row's xid are.
create index tick_xid on mqpg.tick (xid);

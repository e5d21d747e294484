-- Ticks of the appender: snapshot, floor and due time, append-only. One row for each call of
-- append() that moved something. The newest row is the appender's whole state.
create table mqpg.tick (
    tick_id bigint not null primary key,
    xid xid8 not null,
    snapshot pg_snapshot not null,
    snapshot_xmax xid8 not null,
    batch_seq bigint not null,
    floor_id bigint not null,
    due_until timestamptz not null,
    messages bigint not null,
    topic_ids int [] not null,
    at timestamptz not null
) partition by range (tick_id);
comment on column mqpg.tick.xid is 'The appending transaction, which got its xid after batch_seq was read';
comment on column mqpg.tick.snapshot is 'All rows visible in it have their offsets';
comment on column mqpg.tick.snapshot_xmax is 'pg_snapshot_xmax(snapshot), for the index';
comment on column mqpg.tick.batch_seq is 'The batch id sequence, read before the snapshot was taken';
comment on column mqpg.tick.floor_id is 'Rows that a later append() may append have greater batch ids';
comment on column mqpg.tick.due_until is 'Delayed messages up to this time are appended';
comment on column mqpg.tick.messages is 'Number of messages appended';
comment on column mqpg.tick.topic_ids is 'Topics that got messages';
create sequence mqpg.tick_mark as bigint minvalue 0 start 0 cache 1;
comment on sequence mqpg.tick_mark is
    'The newest tick_id, or a greater one: a statement that names it opens no partitions of later ticks';
create index tick_snapshot_xmax on mqpg.tick (snapshot_xmax);
-- snapshot_xmax is the newest finished xid plus one, so a running transaction may have a greater
-- xid. Batch ids up to batch_seq are therefore known to be finished only when all xids below this
-- row's xid are.
create index tick_xid on mqpg.tick (xid);

-- Passes that put undecided halves into the op-log queue: the appender's snapshot rule, ticks of their own.
create table mqpg.half_tick (
    half_tick_id bigint not null primary key,
    xid xid8 not null,              -- the pass's own, taken after batch_seq was read: see tick
    snapshot pg_snapshot not null,
    snapshot_xmax xid8 not null,
    batch_seq bigint not null,
    floor_id bigint not null,
    entries bigint not null,
    at timestamptz not null
) partition by range (half_tick_id);
comment on table mqpg.half_tick is 'Passes that feed the op-log queue with halves still undecided';
create index half_tick_snapshot_xmax on mqpg.half_tick (snapshot_xmax);
create index half_tick_xid on mqpg.half_tick (xid);

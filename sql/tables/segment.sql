-- The partitions of the append-only tables, made ahead, closed and dropped by keep().
-- family: log (commit_log, op_log, check_log by batch id), tick (consume_queue, tick, half_tick by tick id),
-- cursor (by slot), delayed (by written_at), dedup (by slot).
create table mqpg.segment (
    family text not null,
    segment_no bigint not null,
    lower_bound text not null,      -- inclusive, as in the partition's bound
    upper_bound text not null,      -- exclusive
    made_at timestamptz not null default clock_timestamp(),
    opened_at timestamptz,          -- first row may be younger, never older
    opened_xid xid8,                -- log: whoever wrote into the segment before it has an older xid
    closed_at timestamptz,          -- nothing is written into it any more
    body_dropped_at timestamptz,    -- log: commit_log's part is gone, decisions may remain
    dropped_at timestamptz,
    primary key (family, segment_no)
);
comment on table mqpg.segment is 'Partitions of the append-only tables and their life cycle';

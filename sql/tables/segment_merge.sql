-- Merges of neighbouring closed segments in progress. At most one for each family. A merge takes
-- several calls of keep(): rows are copied into tables that are not attached yet, and the last call
-- puts these in the place of the old partitions.
create table mqpg.segment_merge (
    family text primary key,
    segment_nos bigint [] not null,  -- The segments, in order; the first one's number stays
    lower_bound text not null,
    upper_bound text not null,
    closed_at timestamptz not null,  -- When the last of the segments was closed
    partitions oid [] not null,  -- The partitions that the new tables replace; the merge is given up if these change
    topic_ids int [] not null,  -- Topics whose retention is over; only what must stay readable is copied
    -- Family log: record batches of these topics with messages that must stay readable (I11)
    needed_batches bigint [] not null default '{}',
    undecided_ids bigint [] not null default '{}',  -- Family log: messages that may still get a decision
    parent text,  -- The table that is being copied; null: all are copied
    copied_to text,  -- Its key up to which rows are copied; null: none yet
    -- The newest transaction that copied rows; snapshots that do not see it must be over first
    copied_xid xid8 not null,
    copied_rows bigint not null default 0,  -- Number of rows copied so far
    began_at timestamptz not null default clock_timestamp(),
    blocked_since timestamptz  -- Since when open transactions hold up its next step; null: they do not
);

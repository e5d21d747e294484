-- Merges of neighbouring closed segments in progress. At most one for each family. A merge takes
-- several calls of keep(): rows are copied into tables that are not attached yet, and the last call
-- puts these in the place of the old partitions.
create table mqpg.segment_merge (
    family text primary key,
    segment_nos bigint [] not null,
    lower_bound text not null,
    upper_bound text not null,
    closed_at timestamptz not null,
    partitions oid [] not null,
    topic_ids int [] not null,
    needed_batches bigint [] not null default '{}',
    undecided_ids bigint [] not null default '{}',
    parent text,
    copied_to text,
    copied_xid xid8 not null,
    copied_rows bigint not null default 0,
    began_at timestamptz not null default clock_timestamp(),
    blocked_since timestamptz
);
comment on column mqpg.segment_merge.segment_nos is 'The segments, in order; the first one''s number stays';
comment on column mqpg.segment_merge.closed_at is 'When the last of the segments was closed';
comment on column mqpg.segment_merge.partitions is
    'The partitions that the new tables replace; the merge is given up if these change';
comment on column mqpg.segment_merge.topic_ids is
    'Topics whose retention is over; only what must stay readable is copied';
comment on column mqpg.segment_merge.needed_batches is
    'Family log: record batches of these topics with messages that must stay readable (I11)';
comment on column mqpg.segment_merge.undecided_ids is 'Family log: messages that may still get a decision';
comment on column mqpg.segment_merge.parent is 'The table that is being copied; null: all are copied';
comment on column mqpg.segment_merge.copied_to is 'Its key up to which rows are copied; null: none yet';
comment on column mqpg.segment_merge.copied_xid is
    'The newest transaction that copied rows; snapshots that do not see it must be over first';
comment on column mqpg.segment_merge.copied_rows is 'Number of rows copied so far';
comment on column mqpg.segment_merge.blocked_since is
    'Since when open transactions hold up its next step; null: they do not';

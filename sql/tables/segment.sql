-- Partitions of the append-only tables and their life cycle. keep() makes them ahead of time,
-- closes them and drops them.
create table mqpg.segment (
    family text not null,
    segment_no bigint not null,
    lower_bound text not null,
    upper_bound text not null,
    made_at timestamptz not null default clock_timestamp(),
    opened_at timestamptz,
    opened_xid xid8,
    carried_to int,
    carry_again int [] not null default '{}',
    closed_at timestamptz,
    tails_noted_at timestamptz,
    blocked_since timestamptz,
    leaving text,
    leaving_since timestamptz,
    leaving_xid xid8,
    body_dropped_at timestamptz,
    dropped_at timestamptz,
    decided_at timestamptz,
    merged_at timestamptz,
    left_out int [] not null default '{}',
    sizes jsonb,
    primary key (family, segment_no)
);
comment on column mqpg.segment.family is
    'log (commit_log, op_log, check_log) | tick (consume_queue, tick, half_tick) | cursor | delayed | dedup';
comment on column mqpg.segment.lower_bound is 'Inclusive, as in the partition''s bound';
comment on column mqpg.segment.upper_bound is 'Exclusive, as in the partition''s bound';
comment on column mqpg.segment.opened_at is 'When writing into it began; the first row may be younger, never older';
comment on column mqpg.segment.opened_xid is
    'Family log: every transaction that wrote into the segment before has an older xid';
comment on column mqpg.segment.carried_to is
    'Newest slot of family cursor: keep() has looked for older states up to this lock key; null: at all of them';
comment on column mqpg.segment.carry_again is
    'Newest slot of family cursor: lock keys of the queues that were in use when keep() looked';
comment on column mqpg.segment.closed_at is 'From this time on no transaction writes into it';
comment on column mqpg.segment.tails_noted_at is
    'Family tick: when the next offsets of its queues were noted in queue_tail';
comment on column mqpg.segment.blocked_since is 'Since when open transactions hold up what keep() wants to do with it';
comment on column mqpg.segment.leaving is
    'The table whose partition is about to be dropped, because nothing in it is needed any more';
comment on column mqpg.segment.leaving_since is 'When that was decided and committed';
comment on column mqpg.segment.leaving_xid is
    'commit_log: transactions with an older xid were over when that was decided';
comment on column mqpg.segment.body_dropped_at is
    'From this time on nothing in its first table is needed; decisions and ticks may remain';
comment on column mqpg.segment.dropped_at is 'When its last table was dropped';
comment on column mqpg.segment.decided_at is
    'Family log: from this time on no decision about one of its messages can come; null: one may';
comment on column mqpg.segment.merged_at is 'When keep() last put several segments together into this one; null: never';
comment on column mqpg.segment.left_out is
    'Topics whose messages were left out when segments were merged; 0: all of dropped topics or segments';
comment on column mqpg.segment.sizes is
    'Family log: about how many bytes of bodies each topic has in it; null: not measured';
-- _tail() looks for these whenever a queue has no rows.
create index segment_tails on mqpg.segment (segment_no) where family = 'tick' and tails_noted_at is null;
-- append() looks for the oldest of these.
create index segment_decidable on mqpg.segment (segment_no)
where family = 'log' and decided_at is null and dropped_at is null;

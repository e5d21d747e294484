-- Partitions of the append-only tables and their life cycle. keep() makes them ahead of time,
-- closes them and drops them.
create table mqpg.segment (
    -- log (commit_log, op_log, check_log) | tick (consume_queue, tick, half_tick) | cursor | delayed | dedup
    family text not null,
    segment_no bigint not null,
    lower_bound text not null,  -- Inclusive, as in the partition's bound
    upper_bound text not null,  -- Exclusive, as in the partition's bound
    made_at timestamptz not null default clock_timestamp(),
    opened_at timestamptz,  -- When writing into it began; the first row may be younger, never older
    opened_xid xid8,  -- Family log: every transaction that wrote into the segment before has an older xid
    -- Newest slot of family cursor: keep() has looked for older states up to this lock key; null: at all of them
    carried_to int,
    -- Newest slot of family cursor: lock keys of the queues that were in use when keep() looked
    carry_again int [] not null default '{}',
    closed_at timestamptz,  -- From this time on no transaction writes into it
    tails_noted_at timestamptz,  -- Family tick: when the next offsets of its queues were noted in queue_tail
    blocked_since timestamptz,  -- Since when open transactions hold up what keep() wants to do with it
    leaving text,  -- The table whose partition is about to be dropped, because nothing in it is needed any more
    leaving_since timestamptz,  -- When that was decided and committed
    leaving_xid xid8,  -- commit_log: transactions with an older xid were over when that was decided
    -- From this time on nothing in its first table is needed; decisions and ticks may remain
    body_dropped_at timestamptz,
    dropped_at timestamptz,  -- When its last table was dropped
    -- Family log: from this time on no decision about one of its messages can come; null: one may
    decided_at timestamptz,
    merged_at timestamptz,  -- When keep() last put several segments together into this one; null: never
    -- Topics whose messages were left out when segments were merged; 0: all of dropped topics or segments
    left_out int [] not null default '{}',
    sizes jsonb,  -- Family log: about how many bytes of bodies each topic has in it; null: not measured
    primary key (family, segment_no)
);
-- _tail() looks for these whenever a queue has no rows.
create index segment_tails on mqpg.segment (segment_no) where family = 'tick' and tails_noted_at is null;
-- append() looks for the oldest of these.
create index segment_decidable on mqpg.segment (segment_no)
where family = 'log' and decided_at is null and dropped_at is null;

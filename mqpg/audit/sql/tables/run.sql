-- What one audit was asked: a single row, and which broker it reads.
-- overdue_before: half messages whose check-back was due before this time count as undecided. Null
-- means all. purged_before: ledger rows of decisions before this time may have been deleted.
create temp table run (
    broker_id text not null,
    incarnation int not null,
    taken_at timestamptz not null,
    all_topics boolean not null,
    drained boolean not null,
    overdue_before timestamptz,
    purged_before timestamptz not null
);

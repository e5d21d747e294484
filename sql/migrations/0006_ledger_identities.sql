-- Adds the limit of undecided half messages of a producer group, the ledgers that its producers write,
-- and how the loss of rows of the broker's own ledger is noticed.
-- breaking: no
alter table mqpg.producer_group
    add column max_undecided int not null default 100000,
    add column overfull_at timestamptz;
comment on column mqpg.producer_group.max_undecided is
    'How many undecided half messages the group may have before prepare() raises MQ026';
comment on column mqpg.producer_group.overfull_at is
    'When the last count found more than max_undecided half messages undecided; null: it did not';

create table mqpg.ledger_loss (
    singleton boolean primary key default true check (singleton),
    ledger_oid oid not null,
    since xid8 not null default '0'
);
comment on table mqpg.ledger_loss is 'Since when mqpg.ledger has its rows';
comment on column mqpg.ledger_loss.singleton is 'Always true: the table has exactly one row';
comment on column mqpg.ledger_loss.ledger_oid is 'The table mqpg.ledger as it was made; another one has lost its rows';
comment on column mqpg.ledger_loss.since is
    'Rows of half messages of transactions below this may be missing, because rows were deleted';
insert into mqpg.ledger_loss (ledger_oid) values ('mqpg.ledger'::regclass);

create table mqpg.producer_ledger (
    producer_group_id int not null,
    ledger text not null,
    place text not null,
    noted_at timestamptz not null default clock_timestamp(),
    primary key (producer_group_id, ledger, place)
);
comment on table mqpg.producer_ledger is
    'Ledgers in other databases: where the producers of a group, and the compensators that serve it, found the ledger of an identity';
comment on column mqpg.producer_ledger.ledger is
    'Identity of a ledger table, which prepare() stores with each half message; the table has several';
comment on column mqpg.producer_ledger.place is 'Its database, as a producer or a compensator names it';

create index if not exists a_mqpg_oplog_producer_group on pgmq.a_mqpg_oplog ((message ->> 'producer_group'));
comment on index pgmq.a_mqpg_oplog_producer_group is 'Parked half messages of one producer group (mqpg)';

-- Since when mqpg.ledger has its rows. One row. A ledger that lost rows gives no verdict on older half
-- messages that it has no row of.
create table mqpg.ledger_loss (
    singleton boolean primary key default true check (singleton),
    ledger_oid oid not null,
    since xid8 not null default '0'
);
comment on column mqpg.ledger_loss.singleton is 'Always true: the table has exactly one row';
comment on column mqpg.ledger_loss.ledger_oid is 'The table mqpg.ledger as it was made; another one has lost its rows';
comment on column mqpg.ledger_loss.since is
    'Rows of half messages of transactions below this may be missing, because rows were deleted';
insert into mqpg.ledger_loss (ledger_oid) values ('mqpg.ledger'::regclass);

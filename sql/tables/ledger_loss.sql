-- Since when mqpg.ledger has its rows. One row. A ledger that lost rows gives no verdict on older half
-- messages that it has no row of.
create table mqpg.ledger_loss (
    singleton boolean primary key default true check (singleton),  -- Always true: the table has exactly one row
    ledger_oid oid not null,  -- The table mqpg.ledger as it was made; another one has lost its rows
    -- Rows of half messages of transactions below this may be missing, because rows were deleted
    since xid8 not null default '0'
);
insert into mqpg.ledger_loss (ledger_oid) values ('mqpg.ledger'::regclass);

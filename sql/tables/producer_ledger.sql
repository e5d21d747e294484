-- Ledgers in other databases: where the producers of a group, and the compensators that serve it,
-- found the ledger of an identity. Half messages carry the identity, so that each is looked up in
-- the ledger that its producer writes (protocol T3).
create table mqpg.producer_ledger (
    producer_group_id int not null,
    -- Identity of a ledger table, which prepare() stores with each half message; the table has several
    ledger text not null,
    place text not null,  -- Its database, as a producer or a compensator names it
    noted_at timestamptz not null default clock_timestamp(),
    primary key (producer_group_id, ledger, place)
);

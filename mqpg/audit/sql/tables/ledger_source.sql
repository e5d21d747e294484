-- The ledgers, and by how many seconds the clock of each may differ from the broker's.
create temp table ledger_source (ledger text not null, tolerance float8 not null);

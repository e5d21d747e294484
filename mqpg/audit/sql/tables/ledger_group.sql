-- The producer groups of each ledger. in_broker: the ledger is the one in the broker's own
-- database.
create temp table ledger_group (
    producer_group_id int not null,
    ledger text not null,
    in_broker boolean not null
);

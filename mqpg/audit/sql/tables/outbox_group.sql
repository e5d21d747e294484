-- The producer groups of each outbox. identity: what those of its half messages carry that are beside a
-- ledger. Null: the database has no ledger, and all of them are the outbox's.
create temp table outbox_group (
    producer_group_id int not null,
    ledger text not null,
    in_broker boolean not null,
    identity text
);

-- The producer groups whose database has an outbox and no ledger.
create temp table outbox_group (
    producer_group_id int not null,
    ledger text not null,
    in_broker boolean not null
);

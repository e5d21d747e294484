-- The rows of outboxes that belong to this broker, without their payloads. dedup_hash: the SHA-256
-- of the row's id, which is also the dedup id of its message.
create temp table outbox_row (
    ledger text,
    dedup_hash text,
    state text,
    handle_id bigint,
    topic text
);

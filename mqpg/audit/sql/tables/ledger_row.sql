-- The rows of ledgers that belong to this broker.
create temp table ledger_row (
    ledger text,
    message_id bigint,
    nonce text,
    entry text,
    created_at timestamptz,
    done_at timestamptz
);

-- The rows of ledgers that belong to this broker. topic: null in the broker's own ledger.
create temp table ledger_row (
    ledger text,
    message_id bigint,
    handle_hash text,
    entry text,
    created_at timestamptz,
    done_at timestamptz,
    topic text
);

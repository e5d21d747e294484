-- A nack notes in its version of the cursor when its messages are retried, so that two tables say it.
-- breaking: no
comment on column mqpg.cursor.reason is
    'A nack: why the messages in failed did; if failed is null, when the messages are retried, in µs since 1970';

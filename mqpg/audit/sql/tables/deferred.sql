-- Messages that groups deferred in their own database. Their position is beyond them, and a retry
-- will apply them.
create temp table deferred (consumer_group text, topic text, message_id bigint);

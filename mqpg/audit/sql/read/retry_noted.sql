-- When the messages that a nack put into the retry lane shall come back, by its version of the cursor.
-- A row for each time; visible_at is null where it noted none (a dead letter). A nack of an earlier
-- release has no row.
select
    c.subscription_id, c.queue_id, c.version,
    timestamptz 'epoch' + r.r::bigint * interval '1 microsecond' as visible_at
from mqpg_audit.position_change as c
cross join lateral unnest(string_to_array(trim(c.reason, '{}'), ',', 'NULL')) as r (r)
where c.action = 'nack' and c.failed is null and c.reason ~ '^{(NULL|[0-9]{1,16})(,(NULL|[0-9]{1,16}))*}$'

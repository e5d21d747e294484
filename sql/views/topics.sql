-- Topics and their settings.
-- Cost: one row per topic.
create view mqpg.topics as
select t.name as topic, t.kind, t.queues, t.retention, t.paused, t.max_payload, t.message_ttl, t.on_expired,
    t.lose_after, t.lose_over, t.checksums, t.created_at, t.max_bytes, t.full_of
from mqpg.topic as t;
-- kind: normal | relay
-- queues: Number of ordered queues
-- paused: true: receive() returns nothing to any group
-- max_payload: Greatest size of a payload, in bytes
-- message_ttl: A message that a group did not get within this time after it became visible expires; null: never
-- on_expired: skip (counts as consumed) | dead_letter
-- lose_after: Unread messages may be dropped this long after their segment was closed; null: never
-- lose_over: Unread messages of a group may be dropped beyond this many bytes; null: never
-- checksums: true: new record batches have a checksum of their contents, which the audit compares
-- max_bytes: With about so many bytes of messages stored, sends raise MQ028; null: no limit
-- full_of: Whose max_bytes was reached when it was last measured: topic | broker; null: neither

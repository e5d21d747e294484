-- Topics and their settings.
-- Cost: one row per topic.
create view mqpg.topics as
select t.name as topic, t.kind, t.queues, t.retention, t.paused, t.max_payload, t.message_ttl, t.on_expired,
    t.lose_after, t.lose_over, t.checksums, t.created_at, t.max_bytes, t.full_of
from mqpg.topic as t;
comment on column mqpg.topics.kind is 'normal | relay';
comment on column mqpg.topics.queues is 'Number of ordered queues';
comment on column mqpg.topics.paused is 'true: receive() returns nothing to any group';
comment on column mqpg.topics.max_payload is 'Greatest size of a payload, in bytes';
comment on column mqpg.topics.message_ttl is
    'A message that a group did not get within this time after it became visible expires; null: never';
comment on column mqpg.topics.on_expired is 'skip (counts as consumed) | dead_letter';
comment on column mqpg.topics.lose_after is
    'Unread messages may be dropped this long after their segment was closed; null: never';
comment on column mqpg.topics.lose_over is
    'Unread messages of a group may be dropped beyond this many bytes; null: never';
comment on column mqpg.topics.checksums is
    'true: new record batches have a checksum of their contents, which the audit compares';
comment on column mqpg.topics.max_bytes is
    'With about so many bytes of messages stored, sends raise MQ028; null: no limit';
comment on column mqpg.topics.full_of is
    'Whose max_bytes was reached when it was last measured: topic | broker; null: neither';

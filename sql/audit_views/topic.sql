-- Topics, also dropped ones. Their ids remain in the other views until retention drops the rows.
-- Cost: one row for each topic.
create view mqpg_audit.topic as
select t.topic_id, t.name as topic, t.kind, t.queues, t.retention, t.message_ttl, t.on_expired, t.lose_after,
    t.lose_over, t.paused, t.created_at, null::timestamptz as dropped_at, t.checksums, (
        select min(w.queues_before) from mqpg.topic_growth as w
        where w.topic_id = t.topic_id
    ) as first_queues, (
        select min(w.first_batch) from mqpg.topic_growth as w
        where w.topic_id = t.topic_id
    ) as grown_from, (
        select case when bool_and(w.boundaries is not null) then max(w.settled_batch) end from mqpg.topic_growth as w
        where w.topic_id = t.topic_id
    ) as settled_batch
from mqpg.topic as t
union all
select d.topic_id, d.name, null as kind, null as queues, null as retention, null as message_ttl, null as on_expired,
    null as lose_after, null as lose_over, null as paused, null as created_at, d.dropped_at, null as checksums,
    null as first_queues, null as grown_from, null as settled_batch
from mqpg.dropped_topic as d;
comment on column mqpg_audit.topic.topic_id is 'Id; a name that is used again gets a new one';
comment on column mqpg_audit.topic.topic is 'Name';
comment on column mqpg_audit.topic.kind is 'normal | relay; null: dropped';
comment on column mqpg_audit.topic.queues is 'Number of ordered queues, which are numbered from 0; null: dropped';
comment on column mqpg_audit.topic.retention is 'How long messages stay after everybody has read them; null: dropped';
comment on column mqpg_audit.topic.message_ttl is
    'A message that a group did not get within this time expires; null: never, or dropped';
comment on column mqpg_audit.topic.on_expired is
    'What becomes of an expired message: skip | dead_letter; null: dropped';
comment on column mqpg_audit.topic.lose_after is
    'Unread messages may be lost this long after their segment was closed; null: never, or dropped';
comment on column mqpg_audit.topic.lose_over is
    'Unread messages of a group may be lost beyond this many bytes; null: never, or dropped';
comment on column mqpg_audit.topic.paused is 'true: no group receives anything; null: dropped';
comment on column mqpg_audit.topic.created_at is 'When it was created; null: dropped';
comment on column mqpg_audit.topic.dropped_at is 'When it was dropped; null: it exists';
comment on column mqpg_audit.topic.checksums is 'true: record batches get a checksum; null: dropped';
comment on column mqpg_audit.topic.first_queues is
    'Number of queues that it was made with; null: the present one, or dropped';
comment on column mqpg_audit.topic.grown_from is
    'Batch ids below it were placed by first_queues; null: the number has always been the same, or dropped';
comment on column mqpg_audit.topic.settled_batch is
    'Batch ids above it were placed by queues; null: not known yet, or always the same, or dropped';

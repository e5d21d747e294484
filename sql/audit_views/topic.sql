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
    ) as settled_batch, not exists (
        select from (
            select w.*, lag(w.queues) over steps as reached, lag(w.first_batch) over steps as batch_before,
                lead(w.queues_before) over steps as continued
            from mqpg.topic_growth as w
            where w.topic_id = t.topic_id
            window steps as (order by w.queues)
        ) as g
        where g.queues <= g.queues_before or g.queues % g.queues_before <> 0 or g.queues_before <> g.reached
            or g.queues <> coalesce(g.continued, t.queues) or g.first_batch <= g.batch_before
            or g.settled_batch <= g.first_batch or cardinality(g.boundaries) <> g.queues_before
    ) as grew_so
from mqpg.topic as t
union all
select d.topic_id, d.name, null as kind, null as queues, null as retention, null as message_ttl, null as on_expired,
    null as lose_after, null as lose_over, null as paused, null as created_at, d.dropped_at, null as checksums,
    null as first_queues, null as grown_from, null as settled_batch,
    null as grew_so
from mqpg.dropped_topic as d;
-- topic_id: Id; a name that is used again gets a new one
-- topic: Name
-- kind: normal | relay; null: dropped
-- queues: Number of ordered queues, which are numbered from 0; null: dropped
-- retention: How long messages stay after everybody has read them; null: dropped
-- message_ttl: A message that a group did not get within this time expires; null: never, or dropped
-- on_expired: What becomes of an expired message: skip | dead_letter; null: dropped
-- lose_after: Unread messages may be lost this long after their segment was closed; null: never, or dropped
-- lose_over: Unread messages of a group may be lost beyond this many bytes; null: never, or dropped
-- paused: true: no group receives anything; null: dropped
-- created_at: When it was created; null: dropped
-- dropped_at: When it was dropped; null: it exists
-- checksums: true: record batches get a checksum; null: dropped
-- first_queues: Number of queues that it was made with; null: the present one, or dropped
-- grown_from: Batch ids below it were placed by first_queues; null: the number has always been the same, or dropped
-- settled_batch: Batch ids above it were placed by queues; null: not known yet, or always the same, or dropped
-- grew_so: false: the steps in which queues were added do not lead to the present number; null: dropped

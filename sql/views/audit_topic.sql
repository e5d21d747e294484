-- The table topic for the audit, without its copies of rights, and with what topic_growth says of its
-- queues. Only auditors read it; see audit_commit_log.
create view mqpg.audit_topic as
select t.topic_id, t.name, t.queues, t.retention, t.kind, t.max_payload, t.paused, t.message_ttl, t.on_expired,
    t.lose_after, t.lose_over, t.checksums, t.created_at, g.first_queues, g.grown_from, g.settled_batch
from mqpg.topic as t
cross join lateral (
    select min(w.queues_before) as first_queues, min(w.first_batch) as grown_from,
        case when bool_and(w.boundaries is not null) then max(w.settled_batch) end as settled_batch
    from mqpg.topic_growth as w
    where w.topic_id = t.topic_id
) as g;
comment on column mqpg.audit_topic.first_queues is 'Number of queues that it was made with; null: the present one';
comment on column mqpg.audit_topic.grown_from is
    'Batch ids below it were placed by the first number of queues; null: it has always been the same';
comment on column mqpg.audit_topic.settled_batch is
    'Batch ids above it were placed by the present number of queues; null: not known yet, or always the same';

-- The table topic for the audit, without its copies of rights. Only auditors read it; see
-- audit_commit_log.
create view mqpg.audit_topic as
select t.topic_id, t.name, t.queues, t.retention, t.kind, t.max_payload, t.paused, t.message_ttl, t.on_expired,
    t.lose_after, t.lose_over, t.checksums, t.archive, t.created_at
from mqpg.topic as t;

-- The table delayed for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_delayed as
select d.visible_at, d.xid, d.first_id, d.deliver_id, d.written_at, d.topic_id, d.subscription_id, d.queue_id, d.n,
    d.attempt, d.reason, d.consumer
from mqpg.delayed as d;

-- The table op_log for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_op_log as
select o.message_id, o.order_no, o.xid, o.deliver_id, o.at, o.visible_at, o.topic_id, o.queue_id, o.stage, o.op,
    o.decided_by, o.reason
from mqpg.op_log as o;

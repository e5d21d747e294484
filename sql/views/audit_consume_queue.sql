-- The table consume_queue for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_consume_queue as
select c.base_offset, c.tick_id, c.topic_id, c.subscription_id, c.n, c.queue_id, c.first_ids, c.starts, c.deliver_ids,
    c.attempts
from mqpg.consume_queue as c;

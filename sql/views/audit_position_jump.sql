-- The table position_jump for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_position_jump as
select p.jump_id, p.at, p.subscription_id, p.topic_id, p.consumer_group, p.member, p.topic, p.queue_id, p.from_offset,
    p.to_offset, p.why, p.back, p.by
from mqpg.position_jump as p;

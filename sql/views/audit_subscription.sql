-- The table subscription for the audit, without its copies of rights. Only auditors read it; see
-- audit_commit_log.
create view mqpg.audit_subscription as
select s.subscription_id, s.consumer_group, s.topic_id, s.member, s.member_of, s.mode, s.start, s.filter, s.tags,
    s.max_attempts, s.retry_delay, s.on_failure, s.paused, s.retries_from, s.created_at
from mqpg.subscription as s;

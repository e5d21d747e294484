-- The table cursor for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_cursor as
select
    c.version,
    c.committed,
    c.claimed,
    c.at,
    c.epoch,
    c.subscription_id,
    c.slot,
    c.queue_id,
    c.action,
    c.owner,
    c.claims,
    c.failed,
    c.reason
from mqpg.cursor as c;

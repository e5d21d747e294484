-- The table cursor for the audit, with the words of its actions (see _action()). Only auditors read
-- it; see audit_commit_log.
create view mqpg.audit_cursor as
select c.version, c.committed, c.claimed, c.at, c.epoch, c.subscription_id, c.slot, c.queue_id,
    case c.action
        when 's' then 'subscribe'
        when 'r' then 'receive'
        when 'b' then 'ack_and_receive'
        when 't' then 'take_over'
        when 'a' then 'ack'
        when 'n' then 'nack'
        when 'e' then 'extend'
        when 'l' then 'release'
        when 'f' then 'filtered'
        when 'x' then 'expired'
        when 'd' then 'dead_letter'
        when 'u' then 'unpin'
        when 'q' then 'moved'
        when 'i' then 'incarnation'
        when 'c' then 'closed'
        when 'k' then 'carried'
        else c.action::text
    end as action,
    c.owner, c.claims, c.failed, c.reason
from mqpg.cursor as c;

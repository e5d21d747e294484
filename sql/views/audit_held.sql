-- The table held for the audit, without keys, tags, headers and bodies. Only auditors read it. The
-- planner puts the table in place of the view, so partitions are left out and read in parts as
-- before.
-- Cost: as the table.
create view mqpg.audit_held as
select
    h.message_id,
    h.xid,
    h.born_at,
    h.topic_id,
    h.producer_group_id,
    h.incarnation,
    h.queue_id,
    h.kind,
    h.nonce,
    h.check_at,
    h.delay,
    h.relay,
    h.copied_at
from mqpg.held as h;
comment on view mqpg.audit_held is 'The table held for the audit, without bodies';

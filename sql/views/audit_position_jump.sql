-- The table position_jump for the audit, as it is. Only auditors read it. The planner puts the
-- table in place of the view, so partitions are left out and read in parts as before.
-- Cost: as the table.
create view mqpg.audit_position_jump as
select
    p.jump_id,
    p.at,
    p.subscription_id,
    p.topic_id,
    p.consumer_group,
    p.member,
    p.topic,
    p.queue_id,
    p.from_offset,
    p.to_offset,
    p.why,
    p.back,
    p.by
from mqpg.position_jump as p;
comment on view mqpg.audit_position_jump is 'The table position_jump for the audit';

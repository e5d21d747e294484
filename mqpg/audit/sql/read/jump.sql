-- Ranges of offsets that groups were moved over, or back.
select
    j.jump_id, j.at, j.subscription_id, j.topic_id, j.consumer_group, j.topic,
    j.queue_id::int as queue_id,
    j.from_offset, j.to_offset, j.why, j.back
from mqpg.audit_position_jump as j

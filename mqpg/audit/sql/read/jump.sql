-- Ranges of offsets that groups were moved over, or back.
select
    j.jump_id,
    j.jumped_at as at,
    j.subscription_id, j.topic_id, j.consumer_group, j.topic, j.queue_id, j.from_offset, j.to_offset, j.why,
    j.moved_back as back
from mqpg_audit.position_jump as j

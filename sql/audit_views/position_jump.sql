-- Ranges of offsets that a subscription was moved over, or back, on purpose, by a person or by a
-- policy. It will not get the messages in them, and that is no loss of mqpg. With moved_back it may
-- get them again.
-- Cost: as the table, which is small. Rows are deleted after the setting position_jump_keep.
create view mqpg_audit.position_jump as
select j.jump_id, j.at as jumped_at, j.subscription_id, j.consumer_group, nullif(j.member, '') as consumer, j.topic_id,
    j.topic, j.queue_id::int as queue_id, j.from_offset, j.to_offset, j.why, j.back as moved_back, j.by as jumped_by
from mqpg.position_jump as j;
comment on column mqpg_audit.position_jump.jump_id is 'Ascending number';
comment on column mqpg_audit.position_jump.jumped_at is 'When it was';
comment on column mqpg_audit.position_jump.subscription_id is 'Id that the subscription has or had';
comment on column mqpg_audit.position_jump.consumer_group is 'Name that the consumer group had';
comment on column mqpg_audit.position_jump.consumer is 'Mode broadcast: the member of the group; else null';
comment on column mqpg_audit.position_jump.topic_id is 'Id of the topic';
comment on column mqpg_audit.position_jump.topic is 'Name that the topic had';
comment on column mqpg_audit.position_jump.queue_id is 'Queue of the topic, from 0; -1: the retry lane';
comment on column mqpg_audit.position_jump.from_offset is 'First offset of the range';
comment on column mqpg_audit.position_jump.to_offset is 'Offset after the last one of the range';
comment on column mqpg_audit.position_jump.why is
    'seek | purge | expired (message_ttl) | age (lose_after) | size (lose_over)';
comment on column mqpg_audit.position_jump.moved_back is 'true: it was moved back, so the messages may come again';
comment on column mqpg_audit.position_jump.jumped_by is 'The role that did it';

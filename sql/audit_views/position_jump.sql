-- Ranges of offsets that a subscription was moved over, or back, on purpose, by a person or by a
-- policy. It will not get the messages in them, and that is no loss of mqpg. With moved_back it may
-- get them again.
-- Cost: as the table, which is small. Rows are deleted after the setting position_jump_keep.
create view mqpg_audit.position_jump as
select j.jump_id, j.at as jumped_at, j.subscription_id, j.consumer_group, nullif(j.member, '') as consumer, j.topic_id,
    j.topic, j.queue_id::int as queue_id, j.from_offset, j.to_offset, j.why, j.back as moved_back, j.by as jumped_by
from mqpg.position_jump as j;
-- jump_id: Ascending number
-- jumped_at: When it was
-- subscription_id: Id that the subscription has or had
-- consumer_group: Name that the consumer group had
-- consumer: Mode broadcast: the member of the group; else null
-- topic_id: Id of the topic
-- topic: Name that the topic had
-- queue_id: Queue of the topic, from 0; -1: the retry lane
-- from_offset: First offset of the range
-- to_offset: Offset after the last one of the range
-- why: seek | purge | expired (message_ttl) | age (lose_after) | size (lose_over)
-- moved_back: true: it was moved back, so the messages may come again
-- jumped_by: The role that did it

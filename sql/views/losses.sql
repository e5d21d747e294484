-- Messages that consumer groups lost by a policy of the topic, newest first. Offsets that a group
-- was moved over by seek() or purge_topic() are no losses.
-- Cost: reads the table of skipped offsets once.
create view mqpg.losses as
select j.at, j.topic, j.consumer_group, nullif(j.member, '') as consumer, j.queue_id, j.from_offset, j.to_offset,
    j.to_offset - j.from_offset as messages, j.why, j.by
from mqpg.position_jump as j
where j.why in ('age', 'size') and not j.back
order by j.jump_id desc;
-- consumer: Mode broadcast: the consumer that lost them; else null
-- queue_id: -1: the retry lane
-- from_offset: First offset that was lost
-- to_offset: Offset after the last one that was lost
-- messages: Number of offsets in between
-- why: age (lose_after) | size (lose_over)

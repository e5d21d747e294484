-- What consumer groups lost by a policy of the topic (lose_after, lose_over), newest first. The offsets that a group
-- got by itself or skipped on purpose are not losses: see the table jump.
-- Cost: reads the table jump.
create view mqpg.losses as
select
    j.at,
    j.topic,
    j.consumer_group,
    nullif(j.member, '') as consumer,
    j.queue_id,
    j.from_offset,
    j.to_offset,
    j.to_offset - j.from_offset as messages,
    j.why,
    j.by
from mqpg.jump as j
where j.why in ('age', 'size') and not j.back
order by j.jump_id desc;
comment on view mqpg.losses is 'Messages that consumer groups lost by policy';

-- The history of each subscription on each queue, as far back as it is stored.
-- A condition on slot leaves out partitions; one on subscription_id and queue_id uses the index.
-- Cost: as the cursors. A condition on changed_at reads all of them.
create view mqpg_audit.position_change as
select c.subscription_id, s.consumer_group, nullif(s.member, '') as consumer, s.topic_id, t.name as topic,
    c.queue_id::int as queue_id, c.version, c.at as changed_at,
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
    end as action,
    c.committed as committed_offset, c.claimed as claimed_offset, c.epoch, c.slot, c.owner, c.failed, c.reason
from mqpg.cursor as c
left join mqpg.subscription as s on c.subscription_id = s.subscription_id
left join mqpg.topic as t on s.topic_id = t.topic_id;
-- subscription_id: Id of the subscription
-- consumer_group: Name of the consumer group; null: it unsubscribed
-- consumer: Mode broadcast: the member of the group; else null
-- topic_id: Id of the topic; null: the group unsubscribed
-- topic: Name of the topic; null: the group unsubscribed
-- queue_id: Queue of the topic, from 0; -1: the retry lane
-- version: Number of the change: grows by one for each subscription and queue, and by more with adopt()
-- changed_at: When it was
-- action: subscribe | receive | ack_and_receive (one delivery ended, the next began) | take_over (a returned or
--     expired delivery) | ack | nack | extend | release | filtered | expired | dead_letter | unpin | moved (see
--     position_jump) | incarnation (a restore) | closed, carried (the same position continues in a newer slot)
-- committed_offset: Afterwards: the group is done with everything below this offset
-- claimed_offset: Afterwards: nothing from this offset on was delivered yet
-- epoch: The delivery that it concerns, which is part of its receipt; null: none
-- slot: Number of the period in which it was; the cut column, by which partitions are left out
-- owner: Mode pinned: the consumer that owns the queue; else null
-- failed: nack with on_failure block_key or block_queue: the offsets that failed; else null
-- reason: nack: why the offsets in failed did; without these, when the messages come back, in microseconds since
--     1970. expired: dead_letter, if the messages became dead letters

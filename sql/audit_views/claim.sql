-- Deliveries in flight in each version of a position, one row for each: who held which offsets, and
-- until when. position_change says what made the version. pending shows those of today, by message.
-- A condition on slot leaves out partitions. One on subscription_id, queue_id and version uses the
-- index.
-- Cost: as the cursors.
create view mqpg_audit.claim as
select c.subscription_id, c.queue_id::int as queue_id, c.version, c.slot, k.nth::int as nth, k.epoch, k.from_offset,
    k.to_offset, k.attempt, nullif(k.lease_until, '-infinity') as lease_until, k.consumer as holder, k.settled, k.picked
from mqpg.cursor as c
cross join lateral unnest(c.claims) with ordinality
    as k (epoch, from_offset, to_offset, attempt, lease_until, consumer, settled, picked, key, nth);
-- subscription_id: Id of the subscription
-- queue_id: Queue of the topic, from 0; -1: the retry lane
-- version: Number of the change; the same as in position_change
-- slot: Number of the period in which it was; the cut column
-- nth: Its place in the version, from 1
-- epoch: Number of the delivery, which is part of its receipt; negative: nobody holds the offsets
-- from_offset: First offset of the range
-- to_offset: Offset after the last one of the range
-- attempt: How often this range was delivered, this delivery included
-- lease_until: Until when the holder has it; without a holder: not offered before this time; null: at once
-- holder: The consumer that has, or had, it
-- settled: Offsets in the range that left it: nacked, or acknowledged alone; null: none
-- picked: The only offsets that it has; null: the whole range without settled

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
comment on column mqpg_audit.claim.subscription_id is 'Id of the subscription';
comment on column mqpg_audit.claim.queue_id is 'Queue of the topic, from 0; -1: the retry lane';
comment on column mqpg_audit.claim.version is 'Number of the change; the same as in position_change';
comment on column mqpg_audit.claim.slot is 'Number of the period in which it was; the cut column';
comment on column mqpg_audit.claim.nth is 'Its place in the version, from 1';
comment on column mqpg_audit.claim.epoch is
    'Number of the delivery, which is part of its receipt; negative: nobody holds the offsets';
comment on column mqpg_audit.claim.from_offset is 'First offset of the range';
comment on column mqpg_audit.claim.to_offset is 'Offset after the last one of the range';
comment on column mqpg_audit.claim.attempt is 'How often this range was delivered, this delivery included';
comment on column mqpg_audit.claim.lease_until is
    'Until when the holder has it; without a holder: not offered before this time; null: at once';
comment on column mqpg_audit.claim.holder is 'The consumer that has, or had, it';
comment on column mqpg_audit.claim.settled is
    'Offsets in the range that left it: nacked, or acknowledged alone; null: none';
comment on column mqpg_audit.claim.picked is 'The only offsets that it has; null: the whole range without settled';

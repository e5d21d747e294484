-- Cursors: versioned positions and claims of subscriptions, append-only, partitioned by slot. Every
-- receive, ack, nack and so on inserts version + 1 with the whole state, so that no dead rows build
-- up while an old transaction holds vacuum back. All messages below `committed` are done. From
-- `claimed` on, no message was delivered yet. Between the two, a message is done unless it is in a
-- claim.
-- keep() copies the newest versions into a new slot and then drops the old slot.
create table mqpg.cursor (
    version bigint not null,  -- 1, 2, 3, … per subscription and queue; the greatest is the current state
    committed bigint not null,  -- All messages below this offset are done
    claimed bigint not null,  -- No message from this offset on was delivered yet
    at timestamptz not null,
    epoch bigint,  -- Epoch of the claim that this version changed; null where none
    subscription_id int not null,
    slot int not null,  -- The partition, a period of about cursor_slot_age
    queue_id smallint not null,  -- -1: the subscription's retry lane
    -- What wrote this version: s subscribe, r receive, b both ack and receive, t take-over, a ack, n nack, e extend, l
    -- release, f filtered, x expired, d dead letter, u unpin, q moved by seek, purge or policy, i new incarnation, c
    -- closed in this slot, k carried into this slot
    action "char" not null,
    owner text,  -- Mode pinned: the consumer that owns the queue until unpin()
    claims mqpg.claim [] not null,  -- Claims in flight, ascending by from_offset, at most 64 of them open
    -- A nack with on_failure block_key or block_queue: the offsets that failed and are retried in place
    failed bigint [],
    -- A nack: why the messages in failed did; if failed is null, when the messages are retried, in µs since 1970
    reason text,
    primary key (subscription_id, queue_id, version, slot)
) partition by range (slot);
create index cursor_moved on mqpg.cursor (subscription_id, queue_id, version) where action = 'q';

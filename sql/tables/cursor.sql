-- Cursors: versioned positions and claims of subscriptions, append-only, partitioned by slot. Every
-- receive, ack, nack and so on inserts version + 1 with the whole state, so that no dead rows build
-- up while an old transaction holds vacuum back. All messages below `committed` are done. From
-- `claimed` on, no message was delivered yet. Between the two, a message is done unless it is in a
-- claim.
-- keep() copies the newest versions into a new slot and then drops the old slot.
create table mqpg.cursor (
    version bigint not null,
    committed bigint not null,
    claimed bigint not null,
    at timestamptz not null,
    epoch bigint,
    subscription_id int not null,
    slot int not null,
    queue_id smallint not null,
    action "char" not null,         -- what wrote this version; see _action()
    owner text,
    claims mqpg.claim [] not null,
    failed bigint [],
    reason text,
    primary key (subscription_id, queue_id, version, slot)
) partition by range (slot);
comment on column mqpg.cursor.version is '1, 2, 3, … per subscription and queue; the greatest is the current state';
comment on column mqpg.cursor.committed is 'All messages below this offset are done';
comment on column mqpg.cursor.claimed is 'No message from this offset on was delivered yet';
comment on column mqpg.cursor.epoch is 'Epoch of the claim that this version changed; null where none';
comment on column mqpg.cursor.slot is 'The partition, a period of about cursor_slot_age';
comment on column mqpg.cursor.queue_id is '-1: the subscription''s retry lane';
comment on column mqpg.cursor.action is
    'What wrote this version: s subscribe, r receive, b both ack and receive, t take-over, a ack, n nack, '
    'e extend, l release, f filtered, x expired, d dead letter, u unpin, q moved by seek, purge or policy, '
    'i new incarnation, c closed in this slot, k carried into this slot';
comment on column mqpg.cursor.owner is 'Mode pinned: the consumer that owns the queue until unpin()';
comment on column mqpg.cursor.claims is 'Claims in flight, ascending by from_offset, at most 64 of them open';
comment on column mqpg.cursor.failed is
    'A nack with on_failure block_key or block_queue: the offsets that failed and are retried in place';
comment on column mqpg.cursor.reason is
    'A nack: why the messages in failed did; if failed is null, when the messages are retried, in µs since 1970';
create index cursor_moved on mqpg.cursor (subscription_id, queue_id, version) where action = 'q';

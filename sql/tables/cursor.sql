-- Where each subscription stands on each queue: every receive, ack, nack, … inserts version + 1 with the
-- whole state, so a held xmin leaves no dead rows to walk over. Below `committed` all is done; from
-- `claimed` on nothing was handed out; between them, what is not in a claim is done.
-- keep() carries the newest versions into a new slot and drops the old one.
create table mqpg.cursor (
    version bigint not null,
    committed bigint not null,
    claimed bigint not null,
    at timestamptz not null,
    epoch bigint,                   -- the claim that this version's action was about
    subscription_id int not null,
    slot int not null,
    queue_id smallint not null,     -- -1: the retry lane
    action "char" not null,         -- s start, r receive, t take-over, a ack, n nack, e extend, l release,
                                    -- f filtered, p pin, u unpin, d dead-letter, q seek, purge or policy, x expired,
                                    -- i new incarnation, c closed here, k carried here
    owner text,                     -- pinned: whose queue it is until unpin
    claims mqpg.claim [] not null,  -- ascending by from_offset, at most 64 of them open
    failed bigint [],               -- n: offsets that failed and stay at their place (block_key, block_queue),
    reason text,                    -- and why
    primary key (subscription_id, queue_id, version, slot)
) partition by range (slot);
comment on table mqpg.cursor is 'Cursors: versioned positions and claims of subscriptions, append-only';
create index cursor_moved on mqpg.cursor (subscription_id, queue_id, version) where action = 'q';

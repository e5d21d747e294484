-- Record batches of up to 1024 messages as they are stored, without their contents, and messages
-- that outlived their segment, as batches of one message. The view message has a row for each
-- message of them.
-- A condition on batch_id leaves out partitions and uses the index.
-- handle_hashes and key_hashes: nobody can compute a handle or test a guess of a key with them.
-- intact repeats _checksum(), and ledger _ledger_of(), because a view of auditors calls no function of mqpg.
-- Checksums of earlier releases cover the bodies only.
-- Cost: as the log. If handle_hashes is read, two hashes for each half message; if key_hashes is
-- read, one for each key; if sizes or intact is read, the bodies.
create view mqpg_audit.record_batch as
select l.batch_id, l.batch_id * 1024 as first_id, l.n::int as n, l.topic_id, l.queue_id::int as queue_id,
    case l.kind
        when 'h' then 'half' when 'd' then 'delayed' when 'f' then 'final' when 'n' then 'normal' else l.kind::text
    end as kind,
    l.born_at as created_at, l.xid::text as xid, l.producer_group_id, l.check_at, false as kept,
    case
        when l.nonce is not null then array(
            select encode(sha256(substr(sha256(uuid_send(l.nonce) || int8send(l.batch_id * 1024 + i.i)), 1, 16)), 'hex')
            from generate_series(0, l.n - 1) as i (i)
            order by i.i
        )
    end as handle_hashes,
    case
        when l.keys is not null then array(
            select hashtextextended(k.key, (select b.key_hash_seed from mqpg.broker as b))
            from unnest(l.keys) with ordinality as k (key, place)
            order by k.place
        )
    end as key_hashes,
    array[cardinality(l.payloads), cardinality(l.keys), cardinality(l.tags), cardinality(l.headers)] as sizes,
    case
        when l.checksum is not null
            then l.checksum = hash_array_extended(
                l.payloads::text []
                || coalesce(l.keys, array_fill(null::text, array[cardinality(l.payloads)]))
                || coalesce(l.tags, array_fill(null::text, array[cardinality(l.payloads)]))
                || coalesce(l.headers::text [], array_fill(null::text, array[cardinality(l.payloads)])),
                int8xor(
                    int8xor(l.batch_id, l.topic_id::bigint << 32),
                    coalesce(
                        hash_array_extended(
                            array[case when isfinite(l.check_at) and isfinite(l.born_at)
                                then l.check_at - l.born_at end],
                            l.producer_group_id),
                        0)))
            or l.checksum = hash_array_extended(l.payloads::text [], l.batch_id)
    end as intact,
    l.delay, coalesce(l.relay, false) as relay, l.incarnation,
    case when substr(l.nonce::text, 15, 1) = '8' then left(l.nonce::text, 8) end as ledger
from mqpg.commit_log as l
union all
select h.message_id >> 10 as batch_id, h.message_id as first_id, 1 as n, h.topic_id, h.queue_id::int as queue_id,
    case h.kind
        when 'h' then 'half' when 'd' then 'delayed' when 'f' then 'final' when 'n' then 'normal' else h.kind::text
    end as kind,
    h.born_at as created_at, h.xid::text as xid, h.producer_group_id, h.check_at, true as kept,
    array[encode(sha256(substr(sha256(uuid_send(h.nonce) || int8send(h.message_id)), 1, 16)), 'hex')] as handle_hashes,
    array[hashtextextended(h.key, (select b.key_hash_seed from mqpg.broker as b))] as key_hashes,
    null::int [] as sizes, null::boolean as intact, h.delay,
    coalesce(h.relay, false) as relay, h.incarnation,
    case when substr(h.nonce::text, 15, 1) = '8' then left(h.nonce::text, 8) end as ledger
from mqpg.held as h
where not exists (
    select from mqpg.commit_log as c
    where c.batch_id = h.message_id >> 10
);
-- batch_id: Id of the batch; the cut column
-- first_id: Id of its first message; the others follow
-- n: Number of messages
-- topic_id: Id of the topic
-- queue_id: The queue of the topic that they belong to, from 0
-- kind: normal | half | delayed | final (payloads that commits brought, which are not delivered by themselves)
-- created_at: When they were sent or prepared
-- xid: The transaction that wrote it
-- producer_group_id: Half: id of the producer group; else null
-- check_at: Half: from this time on an undecided one is overdue; else null
-- kept: true: retention dropped the batch, and this message of it was kept because somebody still needs it
-- handle_hashes: Half: one element per message, the SHA-256 of the 16 bytes that the last part of its handle writes
-- key_hashes: One element per message, equal for equal keys (null: without key); null: no message has a key
-- sizes: Number of payloads, keys, tags and headers; null: there is no such array, or kept
-- intact: Whether the contents match their checksum; null: the batch has none, or kept
-- delay: Half: how long after its commit it becomes visible; null: at once
-- relay: true: half messages of a relay topic, whose phases also travel as messages
-- incarnation: Half: the second part of their handles: the broker's incarnation when they were prepared
-- ledger: Half: identity of the ledger or outbox that they were prepared for; null: none was named

-- The table commit_log for the audit, without keys, tags, headers and bodies. Only auditors read
-- the views audit_…. The planner puts the table in place of such a view, so partitions are left out
-- and read in parts as before.
-- handle_hashes lets the audit compare handles, and nobody can compute one from it: it has the
-- SHA-256 of what _handle_nonce() returns. key_hashes lets it see which messages have the same key.
-- Nobody can test a guess, because the hash depends on a secret.
-- intact repeats _checksum(), because an auditor may not call it. Checksums of earlier releases cover the bodies only.
-- Cost: as the table. If handle_hashes is read, two hashes for each half message; if key_hashes is
-- read, one for each key; if sizes or intact is read, the bodies.
create view mqpg.audit_commit_log as
select l.batch_id, l.xid, l.born_at, l.topic_id, l.producer_group_id, l.incarnation, l.queue_id, l.n, l.kind,
    l.check_at, l.delay, l.relay,
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
                    coalesce(hash_array_extended(array[l.check_at - l.born_at], l.producer_group_id), 0)))
            or l.checksum = hash_array_extended(l.payloads::text [], l.batch_id)
    end as intact
from mqpg.commit_log as l;
comment on column mqpg.audit_commit_log.handle_hashes is
    'Half messages only: one element per message, the SHA-256 of the nonce in its handle';
comment on column mqpg.audit_commit_log.key_hashes is
    'One element per message (null: without key), equal for equal keys; null when no message has a key';
comment on column mqpg.audit_commit_log.sizes is
    'Number of payloads, keys, tags and headers; null: there is no such array';
comment on column mqpg.audit_commit_log.intact is 'Whether the contents match their checksum; null: the batch has none';

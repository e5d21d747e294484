-- The table held for the audit, without keys, tags, headers and bodies. Only auditors read it.
-- handle_hash and key_hash are elements of handle_hashes and key_hashes of audit_commit_log.
-- Cost: as the table, and two hashes for each half message if handle_hash is read.
create view mqpg.audit_held as
select h.message_id, h.xid, h.born_at, h.topic_id, h.producer_group_id, h.incarnation, h.queue_id, h.kind, h.check_at,
    h.delay, h.relay, h.copied_at,
    encode(sha256(substr(sha256(uuid_send(h.nonce) || int8send(h.message_id)), 1, 16)), 'hex') as handle_hash,
    hashtextextended(h.key, (select b.key_hash_seed from mqpg.broker as b)) as key_hash
from mqpg.held as h;
comment on column mqpg.audit_held.handle_hash is 'Half messages only: the SHA-256 of the nonce in the handle';
comment on column mqpg.audit_held.key_hash is 'Equal for equal keys; null: without key';

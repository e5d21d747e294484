-- The table dedup for the audit, with hashes in place of the dedup ids. Only auditors read it; see
-- audit_commit_log.
-- Cost: as the table, and one hash for each row if dedup_hash is read.
create view mqpg.audit_dedup as
select d.message_id, d.slot, d.topic_id, encode(sha256(convert_to(d.dedup_id, 'UTF8')), 'hex') as dedup_hash
from mqpg.dedup as d;
comment on column mqpg.audit_dedup.dedup_hash is 'SHA-256 of the dedup id';

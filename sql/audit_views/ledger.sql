-- The ledger in the broker's own database: local transactions and fences, without the handles. The
-- handle is a secret, so the view has its parts without the last one, and a hash of that. Ledgers
-- in other databases are tables mqpg_ledger of your own.
-- Cost: as the ledger. A condition on message_id reads all of it.
create view mqpg_audit.ledger as
select split_part(l.handle, '.', 3)::bigint as message_id, split_part(l.handle, '.', 3)::bigint >> 10 as batch_id,
    split_part(l.handle, '.', 1) as broker_id, split_part(l.handle, '.', 2)::int as incarnation, l.entry,
    l.at as written_at, encode(sha256(decode(split_part(l.handle, '.', 4), 'hex')), 'hex') as handle_hash
from mqpg.ledger as l
-- A pattern with {1,18} takes five times as long.
where l.handle ~ '^[0-9a-f]+[.][0-9]+[.][0-9]+[.][0-9a-f]+$'
    and length(split_part(l.handle, '.', 1)) = 12
    and length(split_part(l.handle, '.', 2)) <= 9
    and length(split_part(l.handle, '.', 3)) <= 18
    and length(split_part(l.handle, '.', 4)) = 32;
-- message_id: Id of the half message: third part of the handle
-- batch_id: message_id / 1024, to join with message
-- broker_id: The broker that prepared it: first part of the handle
-- incarnation: Incarnation of the broker when it was prepared: second part of the handle
-- entry: local: the local transaction committed | fence: a check-back came first, so it can no longer commit
-- written_at: When the row was written
-- handle_hash: Equal to handle_hash of the half message

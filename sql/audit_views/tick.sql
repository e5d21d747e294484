-- Ticks: calls of append() that gave messages their offsets. What no tick has appended is in no
-- queue yet, and no group can receive it.
-- A condition on tick_id leaves out partitions and uses the index.
-- Cost: as the ticks. A condition on appended_at reads all of them.
create view mqpg_audit.tick as
select t.tick_id, t.at as appended_at, t.messages, nullif(t.due_until, '-infinity') as due_until, t.xid::text as xid,
    t.snapshot::text as snapshot, t.floor_id, t.batch_seq, t.snapshot_xmax::text as snapshot_xmax
from mqpg.tick as t;
-- tick_id: Number of the tick; the cut column
-- appended_at: When it was
-- messages: Number of messages that it appended, with retries
-- due_until: Delayed messages and retries up to this time are appended; null: there were none
-- xid: The transaction that wrote it
-- snapshot: Which transactions it could see: it appended what these had committed
-- floor_id: It has seen all batch ids up to this one
-- batch_seq: The newest batch id at its time
-- snapshot_xmax: The first transaction id that it could not see, as in snapshot

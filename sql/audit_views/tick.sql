-- Ticks: calls of append() that gave messages their offsets. What no tick has appended is in no
-- queue yet, and no group can receive it.
-- A condition on tick_id leaves out partitions and uses the index.
-- Cost: as the ticks. A condition on appended_at reads all of them.
create view mqpg_audit.tick as
select t.tick_id, t.at as appended_at, t.messages, nullif(t.due_until, '-infinity') as due_until, t.xid::text as xid,
    t.snapshot::text as snapshot, t.floor_id, t.batch_seq
from mqpg.tick as t;
comment on column mqpg_audit.tick.tick_id is 'Number of the tick; the cut column';
comment on column mqpg_audit.tick.appended_at is 'When it was';
comment on column mqpg_audit.tick.messages is 'Number of messages that it appended, with retries';
comment on column mqpg_audit.tick.due_until is
    'Delayed messages and retries up to this time are appended; null: there were none';
comment on column mqpg_audit.tick.xid is 'The transaction that wrote it';
comment on column mqpg_audit.tick.snapshot is 'Which transactions it could see: it appended what these had committed';
comment on column mqpg_audit.tick.floor_id is 'It has seen all batch ids up to this one';
comment on column mqpg_audit.tick.batch_seq is 'The newest batch id at its time';

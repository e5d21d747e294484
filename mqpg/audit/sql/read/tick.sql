-- The ticks of the appender. The last judged one is read again, because the next one is compared with
-- it.
select t.tick_id, t.snapshot, t.due_until, t.at, t.xid, t.floor_id, t.batch_seq
from mqpg.audit_tick as t
where t.tick_id >= (select case when j.reading then j.last_tick else -1 end from judged as j)
    and t.tick_id <= (select case when j.reading then 9223372036854775807 else j.last_tick end from judged as j)

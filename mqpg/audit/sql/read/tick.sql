-- The ticks of the appender.
select t.tick_id, t.snapshot, t.due_until, t.at
from mqpg.audit_tick as t

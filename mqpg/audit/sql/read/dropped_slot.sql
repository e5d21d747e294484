-- The slots of cursors that retention has dropped.
select s.segment_no::int as slot
from mqpg.audit_segment as s
where s.family = 'cursor' and s.body_dropped_at is not null

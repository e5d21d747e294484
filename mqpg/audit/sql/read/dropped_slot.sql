-- The slots of cursors that retention has dropped.
select s.segment_no::int as slot
from mqpg_audit.segment as s
where s.family = 'cursor' and s.dropped_at is not null

-- The ranges of batch ids of the segments of which retention has dropped nothing, and when each was begun.
select s.lower_bound as lower_id, s.upper_bound as upper_id, s.opened_at
from mqpg_audit.segment as s
where s.family = 'log' and s.opened_at is not null and s.dropped_at is null and s.left_out = '{}'

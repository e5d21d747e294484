-- The ranges of batch ids of the segments of which retention has dropped nothing.
select s.lower_bound::bigint as lower_id, s.upper_bound::bigint as upper_id
from mqpg.audit_segment as s
where s.family = 'log' and s.opened_at is not null and s.body_dropped_at is null and s.left_out = '{}'

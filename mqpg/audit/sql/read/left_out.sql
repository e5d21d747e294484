-- The ticks of merged segments out of which retention has left rows of a topic.
select l.topic_id, s.lower_bound as lower_id, s.upper_bound as upper_id
from mqpg_audit.segment as s
cross join lateral unnest(s.left_out) as l (topic_id)
where s.family = 'tick'

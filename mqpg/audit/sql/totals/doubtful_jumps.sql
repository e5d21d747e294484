-- Offsets that groups lost by a policy (lose_after: age, lose_over: size) which their topic has not
-- now. Whether it had it then is not recorded.
select j.consumer_group, j.topic, j.why, sum(j.to_offset - j.from_offset)::bigint as offsets
from jump as j
join topic as t on t.topic_id = j.topic_id
where not j.back and (j.why = 'age' and not t.loses_by_age or j.why = 'size' and not t.loses_by_size)
group by 1, 2, 3
order by 1, 2, 3

-- Offsets that groups skipped, and offsets that a move back delivers again. Neither makes the
-- verdict invalid.
select j.topic, j.consumer_group, j.why, j.back, sum(j.to_offset - j.from_offset)::bigint as offsets
from jump as j
group by 1, 2, 3, 4
order by 1, 2, 3, 4

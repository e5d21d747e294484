-- Offsets that groups lost by a policy (lose_after: age, lose_over: size) from the time before the
-- broker noted which policies its topics had.
select j.consumer_group, j.topic, j.why, sum(j.to_offset - j.from_offset)::bigint as offsets
from allowed as j
where j.why <> 'expired' and not j.known
group by 1, 2, 3
order by 1, 2, 3

-- How many offsets, retry lanes included, each group has not reached yet.
select p.consumer_group, p.topic, sum(p.tail - p.next_offset)::bigint as lag
from place as p
where p.tail > p.next_offset
group by 1, 2

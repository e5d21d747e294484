-- Position jumps that a policy of the topic explains. known: one that was noted.
select j.jump_id, j.consumer_group, j.topic, j.why, j.from_offset, j.to_offset, bool_or(p.known) as known
from jump as j
join policy as p on p.topic_id = j.topic_id and p.why = j.why
where not j.back
    and (p.after_id is null or p.after_id < j.jump_id)
    and (p.before_id is null or j.jump_id < p.before_id or j.at <= p.used_until)
group by 1, 2, 3, 4, 5, 6

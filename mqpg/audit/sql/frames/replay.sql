-- How often a move back delivered a message again.
select j.subscription_id, j.message_id, count(*) as times
from jumped as j
where j.back
group by 1, 2

-- How many journal rows may belong to any of several subscriptions of their group.
select e.consumer_group as name, count(*) as rows
from odd_effect as e
where e.unattributed
group by 1

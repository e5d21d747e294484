-- The dead letters of each subscription by message, and how often one was redriven.
select
    l.subscription_id, l.message_id,
    count(case when not l.present and not l.excuses then 1 end) as redriven,
    max(l.died_at) as died_at
from letter as l
group by 1, 2

-- The dead letters of each subscription by message: those that are there, and how often one was
-- redriven or discarded.
select
    l.subscription_id, l.message_id,
    count(*) as letters,
    count(case when not l.present and not l.excuses then 1 end) as redriven,
    max(l.died_at) as died_at
from letter as l
group by 1, 2

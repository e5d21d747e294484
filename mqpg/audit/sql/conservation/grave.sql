-- The dead letters of each subscription by message, and how often one was redriven. redriven_lately: since
-- the rows of all retries are there.
select
    l.subscription_id, l.message_id,
    count(case when not l.present and not l.excuses then 1 end) as redriven,
    count(case when not l.present and not l.excuses and l.left_at > h.delayed_from then 1 end) as redriven_lately,
    max(l.died_at) as died_at
from letter as l
cross join horizon as h
group by 1, 2

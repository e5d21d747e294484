-- Messages that a subscription does not have to apply: dead letters, messages that it was moved
-- over, messages that its filter leaves out, and retries that a purge discarded.
select l.subscription_id, l.message_id from letter as l where l.excuses
union
select j.subscription_id, j.message_id from jumped as j where not j.back
union
select u.subscription_id, u.message_id from unmatched as u
union
select d.subscription_id, d.message_id
from delayed as d
join reader as r on r.subscription_id = d.subscription_id
where d.written_at < r.retries_from and not exists (
    select from entry as e
    where e.lane = d.subscription_id and e.message_id = d.message_id and e.attempt = d.attempt
)

-- Messages that a subscription does not have to apply: dead letters, messages that it was moved
-- over, and messages that its filter leaves out.
select l.subscription_id, l.message_id from letter as l where l.excuses
union
select j.subscription_id, j.message_id from jumped as j where not j.back
union
select u.subscription_id, u.message_id from unmatched as u

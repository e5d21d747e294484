-- Messages that filters or tags of subscriptions leave out.
select u.subscription_id, u.message_id
from mqpg_audit.unmatched as u

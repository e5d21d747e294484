-- The failed deliveries of messages that stay to be judged. The next audit no longer reads the
-- offsets of those deliveries, and a dead letter is compared with them.
select f.subscription_id, f.message_id, f.action
from failure as f
cross join judged as j
where f.message_id >= j.until_id or exists (select from open_message as o where o.message_id = f.message_id)

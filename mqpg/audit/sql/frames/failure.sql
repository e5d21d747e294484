-- The messages whose delivery failed, by a nack, the end of a lease, or expiry. A message may have
-- several rows. The offset of a delivery may be in the judged part. An expiry that is not on record
-- is none.
select r.subscription_id, e.message_id, r.action
from released as r
join entry as e using (topic_id, lane, queue_id, queue_offset)
where r.action <> 'ack'
    and not exists (
        select from cursor_fault as f
        where r.action = 'expired' and f.subscription_id = r.subscription_id and f.queue_id = r.queue_id
            and f.version = r.version
    )
union
select f.subscription_id, f.message_id, f.action from judged_failure as f

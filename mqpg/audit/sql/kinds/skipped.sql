-- skipped: a position moved forward without the action that explains it, or versions are missing. An
-- expiry that is not on record and made a dead letter is named after that one.
select f.consumer_group, f.topic, f.queue_id, f.queue_offset, null::bigint as message_id, f.evidence
from cursor_fault as f
where f.kind = 'skipped'
    and not exists (
        select from released as r
        join entry as e using (topic_id, lane, queue_id, queue_offset)
        join judged_letter as l on l.subscription_id = r.subscription_id and l.message_id = e.message_id and l.judged
        where f.action = 'expired' and r.action = 'expired' and r.subscription_id = f.subscription_id
            and r.queue_id = f.queue_id and r.version = f.version
    )

-- What the cursor owes for each message of a subscription that was not acknowledged: how often each ending came.
-- queue_id, queue_offset: the first place where it ended so.
select
    e.subscription_id, e.message_id,
    count(case when e.ending = 'nacked' then 1 end) as nacked,
    count(*) as failed,
    max(case when e.ending = 'nacked' then e.at end) as nacked_at,
    max(e.version) as version,
    min(e.queue_id) as queue_id,
    min(e.queue_offset) as queue_offset
from unacked as e
where e.ending in ('nacked', 'buried', 'expired')
group by 1, 2

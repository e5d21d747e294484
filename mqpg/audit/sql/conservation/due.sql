-- What the cursor owes for each message of a subscription: how often each ending came. acked: as far
-- as the journals can know it, because the positions were read before them. queue_id, queue_offset:
-- where it was acknowledged, else where it ended.
select
    e.subscription_id, e.message_id,
    count(case when e.ending = 'acked' and e.version <= n.version then 1 end) as acked,
    count(case when e.ending = 'nacked' then 1 end) as nacked,
    count(case when e.ending in ('nacked', 'buried', 'expired') then 1 end) as failed,
    max(case when e.ending = 'nacked' then e.at end) as nacked_at,
    max(case when e.ending = 'buried' then e.at end) as buried_at,
    max(e.version) as version,
    min(e.queue_id) as queue_id,
    min(e.queue_offset) as queue_offset
from ending as e
left join cursor_now as n on n.subscription_id = e.subscription_id and n.queue_id = e.queue_id
group by 1, 2

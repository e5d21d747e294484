-- What the cursor owes for each message of a subscription: how often each ending came. acked: as far
-- as a journal must have it. The positions were read before the journals, and what was acknowledged
-- while none was kept is in none. queue_id, queue_offset: the first place where it ended.
select
    e.subscription_id, e.message_id,
    count(case
        when e.ending = 'acked' and e.version <= n.version and (not coalesce(q.noted, false) or s.from_offset is not null)
            then 1
    end) as acked,
    count(case when e.ending = 'nacked' then 1 end) as nacked,
    count(case when e.ending in ('nacked', 'buried', 'expired') then 1 end) as failed,
    max(case when e.ending = 'nacked' then e.at end) as nacked_at,
    max(e.version) as version,
    min(e.queue_id) as queue_id,
    min(e.queue_offset) as queue_offset
from ending as e
left join cursor_now as n on n.subscription_id = e.subscription_id and n.queue_id = e.queue_id
left join queue_start as q on q.subscription_id = e.subscription_id and q.queue_id = e.queue_id
left join journal_span as s
    on s.subscription_id = e.subscription_id
    and s.queue_id = e.queue_id
    and e.queue_offset >= s.from_offset
    and (s.to_offset is null or e.queue_offset < s.to_offset)
group by 1, 2

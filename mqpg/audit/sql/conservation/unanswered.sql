-- The messages that a subscription with a journal acknowledged more often than it applied them. acked: as far
-- as its journal must have it. The positions were read before the journals, and what was acknowledged while
-- none was kept is in none. queue_id, queue_offset: the first place where it ended.
with kept as (
    select o.subscription_id, o.queue_id, n.version, coalesce(q.noted, false) as noted
    from origin as o
    join keeper as k on k.subscription_id = o.subscription_id
    left join cursor_now as n on n.subscription_id = o.subscription_id and n.queue_id = o.queue_id
    left join queue_start as q on q.subscription_id = o.subscription_id and q.queue_id = o.queue_id
)

select
    x.subscription_id, x.message_id,
    sum(x.acked) as acked,
    sum(x.applied) as applied,
    max(x.version) as version,
    min(x.queue_id) as queue_id,
    min(x.queue_offset) as queue_offset
from (
    select
        e.subscription_id, e.message_id, e.version, e.queue_id, e.queue_offset,
        case
            when e.ending = 'acked' and e.version <= k.version and (not k.noted or s.from_offset is not null) then 1
            else 0
        end as acked,
        0 as applied
    from ending as e
    join kept as k on k.subscription_id = e.subscription_id and k.queue_id = e.queue_id
    left join journal_span as s
        on s.subscription_id = e.subscription_id
        and s.queue_id = e.queue_id
        and e.queue_offset >= s.from_offset
        and (s.to_offset is null or e.queue_offset < s.to_offset)
    union all
    select a.subscription_id, a.message_id, null, null, null, 0, 1
    from answer as a
) as x
group by 1, 2
having sum(x.applied) < sum(x.acked)

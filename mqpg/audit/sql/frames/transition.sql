-- Each version of a cursor of a present subscription, beside the version before it.
-- step: first | next | gap (a version is missing before this one). adopt() moves versions far
-- ahead, so that no receipt of a former life can match. done: how many offsets this version
-- released. They were pending before, in a claim or not claimed yet, and are pending no longer.
-- held: how many offsets its claims hold. first_pending: the first offset that is pending.
-- highest_before: the highest epoch of all claims before. moved_back_later: a later seek went back
-- below this version's position.
with held as (
    select
        c.subscription_id, c.queue_id, c.version, c.slot,
        sum(c.held)::bigint as offsets,
        min(c.from_offset) as first_offset,
        max(c.epoch) as highest
    from claim as c
    group by 1, 2, 3, 4
),

known as (
    select
        v.subscription_id, v.queue_id, v.slot, v.version, v.committed, v.claimed, v.at, v.epoch, v.action, v.owner,
        coalesce(h.offsets, 0) as held,
        coalesce(h.first_offset, v.claimed) as first_pending,
        h.highest
    from cursor_version as v
    left join held as h using (subscription_id, queue_id, version, slot)
),

beside as (
    select
        k.*,
        lag(k.version) over versions as previous_version,
        lag(k.slot) over versions as previous_slot,
        lag(k.committed) over versions as previous_committed,
        lag(k.claimed) over versions as previous_claimed,
        lag(k.at) over versions as previous_at,
        lag(k.held) over versions as previous_held,
        lead(k.version) over versions is null as newest,
        max(k.highest) over (
            partition by k.subscription_id, k.queue_id order by k.version, k.slot
            rows between unbounded preceding and 1 preceding
        ) as highest_before,
        coalesce(min(case when k.action = 'moved' then k.claimed end) over (
            partition by k.subscription_id, k.queue_id order by k.version, k.slot
            rows between 1 following and unbounded following
        ) < k.claimed, false) as moved_back_later
    from known as k
    window versions as (partition by k.subscription_id, k.queue_id order by k.version, k.slot)
)

select
    b.*,
    r.topic_id, r.topic, r.consumer_group, r.mode, r.on_failure, r.reads, r.single_from, r.failures_from,
    case
        when b.previous_version is null then 'first'
        when b.version = b.previous_version + 1 then 'next'
        when b.action = 'incarnation' and b.version = b.previous_version + 4294967296 then 'next'
        else 'gap'
    end as step,
    b.previous_held + b.claimed - b.previous_claimed - b.held as done
from beside as b
join reader as r on r.subscription_id = b.subscription_id

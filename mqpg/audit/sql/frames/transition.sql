-- Each version of a cursor of a present subscription, beside the version before it.
-- step: first | next | gap (a version is missing before this one). adopt() moves versions far
-- ahead, so that no receipt of a former life can match. done: how many offsets this version
-- released. They were pending before, in a claim or not claimed yet, and are pending no longer.
-- highest_before: the highest epoch of all claims before. moved_back_later: a later seek went back
-- below this version's position.
with beside as (
    select
        v.*,
        lag(v.version) over versions as previous_version,
        lag(v.slot) over versions as previous_slot,
        lag(v.committed) over versions as previous_committed,
        lag(v.claimed) over versions as previous_claimed,
        lag(v.claims) over versions as previous_claims,
        max((select max(c.epoch) from unnest(v.claims) as c)) over (
            versions rows between unbounded preceding and 1 preceding
        ) as highest_before,
        coalesce(min(case when v.action = 'moved' then v.claimed end) over (
            versions rows between 1 following and unbounded following
        ) < v.claimed, false) as moved_back_later
    from cursor_version as v
    window versions as (partition by v.subscription_id, v.queue_id order by v.version, v.slot)
)

select
    b.*,
    r.topic_id, r.topic, r.consumer_group, r.mode, r.on_failure, r.reads,
    case
        when b.previous_version is null then 'first'
        when b.version = b.previous_version + 1 then 'next'
        when b.action = 'incarnation' and b.version = b.previous_version + (1::bigint << 32) then 'next'
        else 'gap'
    end as step,
    held_before.offsets + b.claimed - b.previous_claimed - held.offsets as done
from beside as b
join reader as r on r.subscription_id = b.subscription_id
cross join lateral (
    select coalesce(sum(case
        when c.picked is not null then cardinality(c.picked)
        else c.to_offset - c.from_offset - coalesce(cardinality(c.settled), 0)
    end), 0)::bigint as offsets
    from unnest(b.claims) as c
) as held
cross join lateral (
    select coalesce(sum(case
        when c.picked is not null then cardinality(c.picked)
        else c.to_offset - c.from_offset - coalesce(cardinality(c.settled), 0)
    end), 0)::bigint as offsets
    from unnest(b.previous_claims) as c
) as held_before

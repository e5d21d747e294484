-- Each version of a cursor that somebody reads by, beside the version before it. follows: none is
-- missing between the two. adopt() moves versions far ahead.
select
    p.*,
    coalesce(
        p.version = p.version_before + 1 or p.action = 'incarnation' and p.version = p.version_before + 4294967296,
        false
    ) as follows
from (
    select
        v.subscription_id, r.topic_id, v.queue_id, v.version, v.slot, v.action, v.at, v.claimed, v.epoch, v.owner,
        r.mode,
        case when v.queue_id < 0 then v.subscription_id else 0 end as lane,
        lag(v.version) over versions as version_before,
        lag(v.slot) over versions as slot_before,
        lag(v.claimed) over versions as claimed_before,
        lag(v.owner) over versions as owner_before
    from cursor_version as v
    join reader as r on r.subscription_id = v.subscription_id
    where r.reads
    window versions as (partition by v.subscription_id, v.queue_id order by v.version, v.slot)
) as p

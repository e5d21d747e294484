-- unexplained: an excuse without a second witness. A position jump that no version of the cursor
-- made, or whose topic had no policy that asks for it, retries that no purge ended, a journal that began or
-- ended where the cursor never was, a decision that a check-back has not on record or the other way round,
-- or a segment that is marked as dropped although its rows are there.
-- A subscription that is gone has no history that could be a witness. Ranges that expired one after
-- the other share a row.
with unmade as (
    select j.jump_id
    from jump as j
    join known_since as k on k.subscription_id = j.subscription_id and k.queue_id = j.queue_id
    where (k.known_since is null or j.at > k.known_since)
        -- The record of a version that moved without one may name another place.
        and not exists (
            select from cursor_fault as f
            where f.subscription_id = j.subscription_id and f.action in ('moved', 'expired')
        )
        and not exists (
            select from transition as t
            where t.subscription_id = j.subscription_id
                and t.queue_id = j.queue_id
                and t.step = 'next'
                and t.at < j.at + interval '1 day'
                and case
                    when j.back
                        then t.action in ('moved', 'expired') and t.previous_claimed >= j.to_offset
                            and t.claimed <= j.from_offset
                    when j.why = 'expired'
                        then t.action = 'expired' and t.previous_claimed < j.to_offset and t.claimed > j.from_offset
                    else t.action = 'moved' and t.previous_committed <= j.from_offset
                        and greatest(t.claimed, t.previous_claimed) >= j.to_offset
                end
        )
)

select
    j.consumer_group, j.topic, j.queue_id, j.from_offset as queue_offset,
    null::bigint as message_id,
    format(
        'a position jump %sover the offsets %s to %s (%s), but %s',
        case when j.back then 'back ' else '' end, j.from_offset, j.to_offset - 1, j.why,
        case when u.jump_id is null then 'the topic had no such policy' else 'no version of the cursor made it' end
    ) as evidence
from jump as j
join reader as r on r.subscription_id = j.subscription_id
left join unmade as u on u.jump_id = j.jump_id
left join allowed as a on a.jump_id = j.jump_id
where u.jump_id is not null or (not j.back and j.why not in ('seek', 'purge') and a.jump_id is null)
union all
select w.consumer_group, w.topic, w.queue_id, w.from_offset, w.message_id, format('%s is recorded %s times', w.what, sum(w.times))
from (
    select
        j.subscription_id, j.consumer_group, j.topic, j.queue_id, j.from_offset, null::bigint as message_id, j.at, j.back,
        format('a position jump over the offsets %s to %s', j.from_offset, j.to_offset - 1) as what,
        1 as times
    from jump as j
    union all
    select null, null, null, null, null, c.message_id, c.at, null, format('its check-back (%s)', c.event), 1
    from check_back as c
    union all
    select null, null, null, null, null, d.message_id, null, null, 'its decision', count(*)
    from decision as d
    group by d.message_id, d.stage
    having count(*) > 1
) as w
group by w.subscription_id, w.consumer_group, w.topic, w.queue_id, w.from_offset, w.message_id, w.at, w.back, w.what
having sum(w.times) > 1
union all
select
    r.consumer_group, r.topic, -1, null, null,
    format('its retries from before %s count as purged, but there is no record of a purge', r.retries_from::text)
from reader as r
where not r.purged
union all
-- A journal is switched on and off where the cursor is.
select
    r.consumer_group, r.topic, s.queue_id, b.b, null,
    format('a journal is noted for the offsets from %s to %s, and no version of the cursor was at %s', s.from_offset,
        coalesce(s.to_offset::text, 'the end'), b.b)
from journal_span as s
join reader as r on r.subscription_id = s.subscription_id
join known_since as k on k.subscription_id = s.subscription_id and k.queue_id = s.queue_id and k.known_since is null
cross join lateral (select s.from_offset as b union all select s.to_offset) as b
where b.b > 0 and not exists (
    select from transition as t
    where t.subscription_id = s.subscription_id and t.queue_id = s.queue_id and b.b in (t.committed, t.claimed)
)
union all
select
    null, null, null, null, null, r.what
from remaining as r
union all
select
    null, t.topic, d.queue_id, null, d.message_id,
    format('decided by the %s, but there is no record of %s', d.decided_by, w.what)
from decision as d
join topic as t on t.topic_id = d.topic_id
cross join lateral (
    select case d.decided_by when 'admin' then 'a settle()' when 'expiry' then 'its expiry' else 'a check-back' end as what
) as w
where not d.witnessed
union all
select
    null, t.topic, m.queue_id, null, m.message_id,
    format('its check-back says %s, and its decision %s', c.event, coalesce('is by the ' || d.decided_by, 'is missing'))
from check_back as c
join message as m on m.message_id = c.message_id
join topic as t on t.topic_id = m.topic_id
left join decision as d on d.message_id = c.message_id and d.stage = 0
where c.event not in ('asked', 'waited', 'waited late', 'parked', 'rearmed')
    and c.decider is distinct from d.decided_by
    and (d.message_id is not null or m.state = 'undecided')
    and not exists (select from unaccounted as u where u.message_id = c.message_id)

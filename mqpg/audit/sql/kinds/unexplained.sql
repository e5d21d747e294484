-- unexplained: an excuse without a second witness. A position jump that no version of the cursor
-- made, or whose topic had no policy that asks for it, retries that no purge ended, a decision by hand
-- or by expiry without its record, or a segment that is marked as dropped although its rows are there.
-- A subscription that is gone has no history that could be a witness. Ranges that expired one after
-- the other share a row.
with unmade as (
    select j.jump_id
    from jump as j
    join known_since as k on k.subscription_id = j.subscription_id and k.queue_id = j.queue_id
    where (k.known_since is null or j.at > k.known_since)
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
select
    j.consumer_group, j.topic, j.queue_id, j.from_offset, null,
    format('a position jump over the offsets %s to %s is recorded %s times', j.from_offset, j.to_offset - 1, count(*))
from jump as j
group by j.subscription_id, j.consumer_group, j.topic, j.queue_id, j.from_offset, j.to_offset, j.back, j.at
having count(*) > 1
union all
select
    r.consumer_group, r.topic, -1, null, null,
    format('its retries from before %s count as purged, but there is no record of a purge', r.retries_from::text)
from reader as r
where not r.purged
union all
select
    null, null, null, null, null,
    format('segment %s of %s is marked as %s', r.segment_no, r.family, r.what)
from remaining as r
union all
select
    null, t.topic, d.queue_id, null, d.message_id,
    format('decided by the %s, but there is no record of %s', d.decided_by, w.what)
from decision as d
join topic as t on t.topic_id = d.topic_id
cross join lateral (select case d.decided_by when 'admin' then 'a settle()' else 'its expiry' end as what) as w
where not d.witnessed

-- What does not add up. place: of one message, only the first counts, because the others follow from
-- it.
-- What may be judged of a subscription by its rows that say what failed.
with known as (
    select r.subscription_id, r.retries_from, s.at as since, h.jumps_purged_before as purged_before
    from reader as r
    join since as s on s.subscription_id = r.subscription_id
    join topic as t on t.topic_id = r.topic_id
    cross join horizon as h
    where r.reads and not exists (
        -- All versions of a queue are gone, and with them its nacks.
        select from queue_start as q
        left join origin as o on o.subscription_id = q.subscription_id and o.queue_id = q.queue_id
        where q.subscription_id = r.subscription_id and q.queue_id < t.queues and o.queue_id is null
    )
),

comebacks as (
    select
        c.*,
        case when c.redriven then coalesce(g.redriven, 0) else coalesce(d.nacked, 0) end as causes
    from comeback as c
    join known as k on k.subscription_id = c.subscription_id
    left join due as d on d.subscription_id = c.subscription_id and d.message_id = c.message_id
    left join grave as g on g.subscription_id = c.subscription_id and g.message_id = c.message_id
    where (not c.redriven or coalesce(c.written_at, c.appended_at) > k.purged_before)
        and not exists (
            select from judged_failure as f
            where f.subscription_id = c.subscription_id and f.message_id = c.message_id
        )
),

-- The newest jump or expiry over an offset that no move back has undone.
standing as (
    select e.*
    from unacked as e
    where e.ending in ('jumped', 'expired') and not exists (
        select from unacked as b
        where b.ending = 'again' and b.subscription_id = e.subscription_id and b.queue_id = e.queue_id
            and b.queue_offset = e.queue_offset and b.version > e.version
    )
),

-- The messages of which an earlier delivery is not known: retention may have dropped it.
partial as (
    select distinct e.message_id
    from unacked as e
    where not exists (select from stored_message as m where m.lane = 0 and m.message_id = e.message_id)
        and not exists (select from judged_offset as o where o.message_id = e.message_id)
),

-- The times that nacks of a message noted for its retries, and which attempts these are, and after which ones
-- it was given up (no time). whole: each nack noted some.
noted as (
    select
        e.subscription_id, e.message_id, e.at, r.visible_at,
        e.attempt + coalesce(c.attempt, 0) as attempt,
        bool_and(r.version is not null or e.ending <> 'nacked') over (partition by e.subscription_id, e.message_id) as whole
    from unacked as e
    join step as s on s.subscription_id = e.subscription_id and s.queue_id = e.queue_id and s.version = e.version
    left join claim as c
        on c.subscription_id = e.subscription_id
        and c.queue_id = e.queue_id
        and c.version = s.version_before
        and c.slot = s.slot_before
        and e.queue_offset >= c.from_offset
        and e.queue_offset < c.to_offset
        and coalesce(e.queue_offset = any(c.picked), true)
        and not coalesce(e.queue_offset = any(c.settled), false)
    left join retry_noted as r
        on r.subscription_id = e.subscription_id and r.queue_id = e.queue_id and r.version = e.version
    where not exists (select from partial as p where p.message_id = e.message_id)
        and (e.ending in ('nacked', 'buried') or (e.ending = 'expired' and exists (
            select from letter as l where l.subscription_id = e.subscription_id and l.message_id = e.message_id
        )))
)

select
    1 as place, 'unexplained' as kind, c.subscription_id,
    -1 as queue_id,
    null::bigint as queue_offset,
    c.message_id,
    null::bigint as version,
    format(
        'it shall come back %s times by a %s, of which there were %s', c.scheduled,
        case when c.redriven then 'redrive' else 'nack' end, c.causes
    ) as evidence
from comebacks as c
where c.scheduled > c.causes
union all
select
    2, 'phantom', c.subscription_id, -1, null, c.message_id, null,
    format(
        'in the retry lane %s times by a %s, of which there were %s', c.landed,
        case when c.redriven then 'redrive' else 'nack' end, c.causes
    )
from comebacks as c
where c.landed > c.causes and c.scheduled <= c.causes
union all
select
    3, 'dead_letter', g.subscription_id, null, null, g.message_id, null,
    'a dead letter, but no delivery of it ended in one'
from grave as g
join known as k on k.subscription_id = g.subscription_id
left join due as d on d.subscription_id = g.subscription_id and d.message_id = g.message_id
where (k.since is null or g.died_at > k.since)
    and coalesce(d.failed, 0) = 0
    and exists (select from stored_message as m where m.lane = 0 and m.message_id = g.message_id)
    and not exists (
        select from judged_failure as f
        where f.subscription_id = g.subscription_id and f.message_id = g.message_id
    )
union all
select
    4, 'lost', d.subscription_id, d.queue_id, d.queue_offset, d.message_id, d.version,
    format('nacked %s times, but it came back %s times, and is no dead letter', d.nacked, coalesce(c.times, 0))
from due as d
join known as k on k.subscription_id = d.subscription_id
left join comeback as c on c.subscription_id = d.subscription_id and c.message_id = d.message_id and not c.redriven
cross join horizon as h
-- Where retention may have dropped the rows of those in the lane, the rows that are left may be of others.
where d.nacked > coalesce(case when c.appended_at > h.delayed_from then c.times else c.landed_ever + c.scheduled end, 0)
    and d.nacked_at > k.purged_before and d.nacked_at > k.retries_from
    and not exists (select from partial as p where p.message_id = d.message_id)
    and not exists (
        select from grave as g where g.subscription_id = d.subscription_id and g.message_id = d.message_id
    )
union all
select
    4, 'lost', g.subscription_id, null, null, g.message_id, null,
    format('redriven %s times, but it came back %s times', g.redriven_lately, coalesce(c.times, 0))
from grave as g
join known as k on k.subscription_id = g.subscription_id
left join comeback as c on c.subscription_id = g.subscription_id and c.message_id = g.message_id and c.redriven
where g.redriven_lately > coalesce(c.times, 0)
    and exists (select from stored_message as m where m.lane = 0 and m.message_id = g.message_id)
    and exists (select from body as b where b.batch_id = g.message_id >> 10)
union all
select
    5, 'lost', e.subscription_id, e.queue_id, e.queue_offset, e.message_id, e.version,
    case e.ending
        when 'buried' then 'given up after its last delivery, but there is no dead letter'
        else format('version %s let it expire and become a dead letter, but there is none', e.version)
    end
from unacked as e
join cursor_version as v
    on v.subscription_id = e.subscription_id and v.queue_id = e.queue_id and v.version = e.version
join known as k on k.subscription_id = e.subscription_id
where (e.ending = 'buried' or (e.ending = 'expired' and v.buries)) and e.at > k.purged_before
    and not exists (
        select from grave as g where g.subscription_id = e.subscription_id and g.message_id = e.message_id
    )
    and not exists (
        select from unmatched as u
        where e.ending = 'expired' and u.subscription_id = e.subscription_id and u.message_id = e.message_id
    )
union all
select
    6, 'skipped', e.subscription_id, e.queue_id, e.queue_offset, e.message_id, e.version,
    format('version %s (action %s) moved over it, but no position jump says so', e.version, e.action)
from standing as e
join known as k on k.subscription_id = e.subscription_id
where e.at > k.purged_before and not exists (
    select from jump as j
    where j.subscription_id = e.subscription_id and j.queue_id = e.queue_id and not j.back
        and (j.why = 'expired') = (e.ending = 'expired')
        and e.queue_offset >= j.from_offset and e.queue_offset < j.to_offset
)
union all
select
    7, 'skipped', e.subscription_id, e.queue_id, e.queue_offset, e.message_id, e.version,
    format('version %s (action %s) passed it, but the filter chooses it', e.version, e.action)
from unacked as e
join subscription as s on s.subscription_id = e.subscription_id
cross join horizon as h
where e.ending = 'passed'
    and not (s.filtered and e.message_id <@ h.dropped_ids)
    and not exists (
        select from unmatched as u where u.subscription_id = e.subscription_id and u.message_id = e.message_id
    )
union all
-- A filter that was changed may have chosen what the present one leaves out.
select
    7, 'phantom', e.subscription_id, e.queue_id, e.queue_offset, e.message_id, e.version,
    format('version %s (action %s) ended its delivery, and the filter leaves it out', e.version, e.action)
from ending as e
join subscription as s on s.subscription_id = e.subscription_id and not s.refiltered
join unmatched as u on u.subscription_id = e.subscription_id and u.message_id = e.message_id
where e.queue_id >= 0 and e.ending in ('acked', 'nacked', 'buried')
union all
select
    8, 'skipped', e.subscription_id, e.queue_id, e.queue_offset, e.message_id, e.version,
    format('version %s (action %s) let it go, which its action does not explain', e.version, e.action)
from unacked as e
where e.ending = 'odd'
union all
select
    9, 'lost', u.subscription_id, u.queue_id, u.queue_offset, u.message_id, u.version,
    format('acknowledged %s times, and applied %s times', u.acked, u.applied)
from unanswered as u
join keeper as k on k.subscription_id = u.subscription_id
where u.applied = 0 or not k.own
union all
select
    10, case when a.handed = 0 and not a.former then 'phantom' else 'duplicated' end,
    a.subscription_id, a.queue_id, a.queue_offset, a.message_id, null,
    format('applied %s times at this offset, and delivered %s times', a.times, a.handed)
from (
    select
        n.subscription_id, n.message_id, n.queue_id, n.queue_offset, p.handed,
        count(*) as times,
        bool_or(n.former) as former
    from answer as n
    join surplus as p
        on p.subscription_id = n.subscription_id and p.queue_id = n.queue_id and p.queue_offset = n.queue_offset
    group by 1, 2, 3, 4, 5
) as a
join origin as o on o.subscription_id = a.subscription_id and o.queue_id = a.queue_id
join since as s on s.subscription_id = a.subscription_id
join stored_message as m
    on m.topic_id = o.topic_id
    and m.lane = o.lane
    and m.queue_id = a.queue_id
    and m.queue_offset = a.queue_offset
    and m.message_id = a.message_id
left join tick as t on t.tick_id = m.tick_id
where a.times > greatest(a.handed, case when a.former then 1 else 0 end)
    and (o.whole or a.queue_offset >= o.claimed and t.at > s.at)
union all
select
    11, 'lease', s.subscription_id, s.queue_id, s.claimed_before, null, s.version,
    format(
        'version %s (action %s): consumer %s has the queue, which %s owns', s.version, s.action, s.owner,
        coalesce(s.owner_before, 'nobody')
    )
from step as s
where s.follows and s.queue_id >= 0 and s.action <> 'unpin' and s.owner is distinct from s.owner_before
    and (s.owner_before is not null or s.mode <> 'pinned')
union all
select
    12, 'mismatch', d.subscription_id, -1, null, n.message_id, null,
    format('its retry is due at %s as attempt %s, and no nack of it said so%s', d.visible_at::text, d.attempt,
        case when d.purged then ' before the last purge' else '' end)
from (
    select
        l.subscription_id, l.message_id, l.visible_at, l.attempt,
        p.purged,
        case when p.purged then k.retries_from + b.back end as before,
        count(*) as times
    from delayed as l
    join known as k on k.subscription_id = l.subscription_id
    join since as s on s.subscription_id = l.subscription_id
    cross join setback as b
    -- While no keeper has run for days, both times are those of the last partition.
    cross join lateral (select l.written_at < k.retries_from - interval '1 millisecond' as purged) as p
    where l.attempt > 1 and (s.at is null or l.written_at > s.written_at)
    group by 1, 2, 3, 4, 5, 6
) as d
join noted as n on n.subscription_id = d.subscription_id and n.message_id = d.message_id
group by 3, 6, d.visible_at, d.attempt, d.purged, d.times
having bool_and(n.whole)
    and count(
        case when n.visible_at = d.visible_at and n.attempt = d.attempt and coalesce(n.at <= d.before, true) then 1 end
    ) < d.times
union all
select
    12, 'mismatch', c.subscription_id, -1, null, c.message_id, null,
    'its retry names a transaction that the tick had seen which appended the message'
from comebacks as c
where c.foreseen > 0
union all
-- A later letter of the message may have the attempts of an earlier one.
select
    12, 'mismatch', l.subscription_id, -1, null, l.message_id, null,
    format('its dead letter says %s attempts, and the last one was another', l.attempts)
from letter as l
join known as k on k.subscription_id = l.subscription_id
join noted as n
    on n.subscription_id = l.subscription_id and n.message_id = l.message_id and n.visible_at is null
    and n.at >= l.died_at
cross join horizon as h
where (k.since is null or l.died_at > k.since) and (l.present or not h.queues_dropped)
group by l.subscription_id, l.message_id, l.died_at, l.attempts
having not bool_or(n.attempt = l.attempts + 1)
union all
select
    12, 'mismatch', d.subscription_id, -1, null, d.message_id, null,
    format('it was redriven, and is due at %s, more than a day after the audit', d.visible_at::text)
from delayed as d
join known as k on k.subscription_id = d.subscription_id
cross join setback as b
cross join run as u
where d.attempt = 1 and d.visible_at > u.taken_at + b.back + interval '1 day'
union all
select
    13, 'gap', c.subscription_id, -1, null, c.message_id, null,
    format('in the retry lane %s times, and the delayed messages have %s rows that say when', c.landed_ever, c.due)
from comebacks as c
cross join horizon as h
where c.landed_ever > c.due and c.landed <= c.causes and c.appended_at > h.delayed_from

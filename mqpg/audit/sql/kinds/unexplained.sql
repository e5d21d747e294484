-- unexplained: an excuse without a second witness. A position jump that no version of the cursor
-- made, a decision by hand or by expiry without its record, or a segment that is marked as dropped
-- although its rows are there. A subscription that is
-- gone has no history that could be a witness. Ranges that expired one after the other share a row.
select
    j.consumer_group, j.topic, j.queue_id, j.from_offset as queue_offset,
    null::bigint as message_id,
    format(
        'a position jump %sover the offsets %s to %s (%s), but no version of the cursor made it',
        case when j.back then 'back ' else '' end, j.from_offset, j.to_offset - 1, j.why
    ) as evidence
from jump as j
join known_since as k on k.subscription_id = j.subscription_id and k.queue_id = j.queue_id
where (k.known_since is null or j.at > k.known_since)
    and not exists (
        select from transition as t
        where t.subscription_id = j.subscription_id
            and t.queue_id = j.queue_id
            and t.step = 'next'
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
union all
select
    null, null, null, null, null,
    format('segment %s of %s is marked as dropped, but its rows are there', r.segment_no, r.family)
from remaining as r
union all
select
    null, t.topic, d.queue_id, null, d.message_id,
    format('decided by the %s, but there is no record of %s', d.decided_by, w.what)
from decision as d
join topic as t on t.topic_id = d.topic_id
cross join lateral (select case d.decided_by when 'admin' then 'a settle()' else 'its expiry' end as what) as w
where not d.witnessed

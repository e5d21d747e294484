-- mismatch: two databases contradict each other about one message, and it is none of the other
-- kinds.
-- Each tick, beside the ones before and after it.
with ticks as (
    select
        t.*,
        lag(t.tick_id) over by_id as id_before,
        lag(t.xid) over by_id as xid_before,
        lag(t.due_until) over by_id as due_before,
        lag(t.floor_id) over by_id as floor_before,
        lag(t.batch_seq) over by_id as batch_before,
        lag(t.snapshot) over by_id as seen_before,
        lag(t.at) over by_id as at_before,
        coalesce(lead(t.at) over by_id, u.taken_at) as at_after
    from tick as t
    cross join run as u
    window by_id as (order by t.tick_id)
),

-- A tolerance may be greater than any interval.
limits as (
    select u.taken_at + s.slack as latest, s.slack
    from run as u
    cross join (
        select interval '1 day' + b.back + least(coalesce(max(c.tolerance), 0), 1e10) * interval '1 second' as slack
        from setback as b
        left join (
            select g.tolerance from journal_group as g
            union all
            select s.tolerance from ledger_source as s
        ) as c on true
        group by b.back
    ) as s
)

select
    null as consumer_group, m.topic,
    null::int as queue_id,
    null::bigint as queue_offset,
    m.message_id,
    format(
        'the ledger %s says %s, the broker says %s%s',
        m.ledger, m.entry, translate(m.state, '_', ' '), coalesce(' (by the ' || m.decided_by || ')', '')
    ) as evidence
from odd_match as m
where m.audited and not m.seen
    and (
        (m.entry = 'local' and m.state = 'rolled_back')
        or (m.entry = 'fence' and m.state = 'committed' and not m.expected)
        -- One transaction writes both.
        or (m.entry = 'fence' and m.state = 'undecided' and m.in_broker)
    )
union all
-- Without its fence the local transaction may commit later.
select
    null, m.topic, null, null, m.message_id,
    format('rolled back by the checker that sets a fence, and the ledger %s has none', m.ledger)
from odd_match as m
join decision as d on d.message_id = m.message_id and d.fenced
cross join run as u
where m.audited and m.state = 'rolled_back' and m.entry is null and m.decided_at >= u.purged_before
union all
-- A row that can be read was committed by a transaction that was over.
select
    null, t.topic, w.queue_id, null, w.message_id,
    format('its %s names transaction %s, which has not begun, so that no tick will see it', w.what, w.xid)
from (
    select 'delayed row' as what, d.topic_id, d.queue_id, d.message_id, d.xid from delayed as d
    union all
    select 'record batch', m.topic_id, m.queue_id, m.message_id, m.xid from message as m where m.kind = 'h'
    union all
    select
        case m.state when 'rolled_back' then 'rollback' else 'commit' end, m.topic_id, m.queue_id, m.message_id, m.commit_xid
    from (
        select m.*
        from message as m
        cross join horizon as h
        where m.kind <> 'f' and m.commit_xid >= h.next_xid
        offset 0
    ) as m
    where not exists (select from queued as q where q.message_id = m.message_id)
        and not exists (select from unqueued as n where n.message_id = m.message_id)
) as w
join topic as t on t.topic_id = w.topic_id
cross join horizon as h
where w.xid >= h.next_xid
union all
select
    null, m.topic, null, null, m.message_id,
    format('the ledger %s says topic %s, and the broker has it in topic %s', m.ledger, m.named_topic, m.topic)
from odd_match as m
where m.audited and m.named_topic <> m.topic
    and not exists (select from spoiled as b where b.batch_id = m.message_id >> 10)
union all
-- From before the newest tick it is a gap. A row may be younger than the broker's snapshot, unless
-- nothing is running any more.
select
    null, null, null, null, m.message_id,
    format('the ledger %s says local, the broker has no such half message', m.ledger)
from odd_match as m
join ledger_source as s on s.ledger = m.ledger
cross join run as u
cross join horizon as h
where not m.audited and m.entry = 'local'
    and (u.drained and m.created_at is not null or date_part('epoch', u.taken_at - m.created_at) > s.tolerance)
    and not m.message_id <@ h.dropped_ids
    and m.message_id >> 10 > h.newest_id
union all
-- Where the check-back is overdue it is undecided.
select
    null, m.topic, null, null, m.message_id,
    format('the ledger %s says that the broker has the decision, and the broker has none', m.ledger)
from odd_match as m
join ledger_source as s on s.ledger = m.ledger
cross join run as u
where m.audited and m.entry = 'local' and m.state = 'undecided' and not m.seen
    and date_part('epoch', u.taken_at - m.done_at) > s.tolerance
    and not u.drained and not m.check_at < u.overdue_before
union all
-- Offsets below the oldest one are no longer in the queues. A journal may reach back further.
select
    e.consumer_group, e.topic, e.queue_id, e.queue_offset, e.message_id,
    'applied at this offset, but the queue has the message at another one'
from astray as e
left join (
    select d.subscription_id, d.queue_id, min(d.queue_offset) as queue_offset
    from delivery as d
    group by 1, 2
) as oldest
    on oldest.subscription_id = e.subscription_id and oldest.queue_id = e.queue_id
where (oldest.queue_offset is null or e.queue_offset >= oldest.queue_offset or e.queue_offset < 0)
    -- A subscription that has ended had a retry lane of its own, with its own offsets.
    and exists (select from delivery as d where d.subscription_id = e.subscription_id)
    and exists (
        select from delivery as d
        where d.consumer_group = e.consumer_group and d.topic_id = e.topic_id and d.message_id = e.message_id
    )
    and not exists (
        select from hole as h
        where h.topic_id = e.topic_id and h.queue_id = e.queue_id and h.lane in (0, e.subscription_id)
    )
    -- An effect that is there twice is a duplicate, wherever it says that it was.
    and not exists (
        select from (
            select f.subscription_id, f.message_id
            from effect as f
            join reapplied as a on a.owner_id = f.owner_id and a.message_id = f.message_id
            group by 1, 2
            having count(*) > 1
        ) as r
        where r.subscription_id = e.subscription_id and r.message_id = e.message_id
    )
    and not exists (
        select from judged_letter as l
        where l.present
            and l.consumer_group = e.consumer_group
            and l.topic_id = e.topic_id
            and l.message_id = e.message_id
    )
union all
-- What is stored of a delay in two places. An open recall may have postponed it since.
select
    null, t.topic, d.queue_id, null, d.message_id,
    format('its decision says that it is due at %s, its delayed row at %s', d.visible_at::text, r.visible_at::text)
from decision as d
join topic as t on t.topic_id = d.topic_id
join (
    select l.message_id, min(l.visible_at) as visible_at
    from delayed as l
    where l.subscription_id = 0
    group by 1
) as r on r.message_id = d.message_id
where d.stage = 0 and d.visible_at <> r.visible_at
union all
-- What is stored of a message in two places.
select
    null, t.topic, null, null, w.message_id,
    format('its %s says topic %s, its record batch topic %s', w.what, w.topic_id, w.stored_id)
from (
    select n.what, n.topic_id, n.message_id, m.topic_id as stored_id
    from (
        select 'delayed row' as what, d.topic_id, d.message_id from delayed as d
        union all
        select 'dedup id', p.topic_id, p.message_id from dedup as p
        union all
        select 'dead letter', r.topic_id, l.message_id
        from letter as l
        join reader as r on r.subscription_id = l.subscription_id
    ) as n
    join message as m on m.message_id = n.message_id
    union all
    select 'decision', d.topic_id, d.message_id, d.stored_id from odd_decision as d
) as w
join topic as t on t.topic_id = w.stored_id
where w.topic_id <> w.stored_id
    and not exists (select from spoiled as b where b.batch_id = w.message_id >> 10)
union all
select
    null, t.topic, l.queue_id, null, l.message_id,
    format('its dead letter says queue %s, its record batch queue %s', l.queue_id, m.queue_id)
from letter as l
join reader as r on r.subscription_id = l.subscription_id
join message as m on m.message_id = l.message_id and m.topic_id = r.topic_id
join topic as t on t.topic_id = m.topic_id
where l.queue_id <> m.queue_id
    and exists (  -- else the record itself is of another queue, and is misplaced
        select from entry as e where e.lane = 0 and e.message_id = l.message_id and e.queue_id = m.queue_id
    )
    and not exists (select from spoiled as b where b.batch_id = l.message_id >> 10)
union all
select
    null, r.topic, l.queue_id, null, l.message_id,
    format('its dead letter says %s attempts, and the last one that it lists is %s', l.attempts, l.last_attempt)
from letter as l
join reader as r on r.subscription_id = l.subscription_id
where l.attempts <> l.last_attempt
union all
select
    null, t.topic, d.queue_id, null, d.message_id,
    format('its record batch says %s delay, and its %s %s', case when b.delay is null then 'no' else 'a' end,
        case d.op when 'c' then 'commit' else 'rollback' end,
        case
            when b.delay is null then 'one' when d.visible_at is null then 'none' when w.waits < b.delay then 'a shorter one'
            else 'a longer one'
        end)
from decision as d
join body as b on b.batch_id = d.message_id >> 10
    and d.message_id >= b.first_id and d.message_id < b.first_id + b.n
join topic as t on t.topic_id = d.topic_id
cross join setback as s
cross join lateral (select date_part('epoch', d.visible_at - d.at) as waits) as w
where d.stage = 0 and d.relayed_as is null and b.kind = 'h'
    and (
        (d.op = 'c' and b.delay is not null) <> (d.visible_at is not null)
        or w.waits < b.delay - 0.001
        or date_part('epoch', d.visible_at - (d.at + s.ahead + s.back)) > b.delay + 86400
    )
union all
select
    null, t.topic, b.queue_id, null, b.first_id,
    format('its topic is %s, and its half message %s', case when t.relays then 'a relay topic' else 'normal' end,
        case when b.relay then 'relays its phases' else 'does not relay its phases' end)
from body as b
join topic as t on t.topic_id = b.topic_id
where b.kind = 'h' and b.relay <> t.relays and coalesce(b.intact, true)
union all
-- The PREPAREs of half messages are stored behind them at the same time, so that one may be in the next segment.
-- adopt() gives them other transaction ids than their half messages.
select
    null, p.topic, p.queue_id, null, p.first_id,
    format('%s half messages are stored with %s PREPAREs', p.halves, p.prepares)
from (
    select
        t.topic, b.queue_id,
        min(b.first_id) as first_id,
        sum(case when b.kind = 'h' then b.n else 0 end) as halves,
        sum(case when b.kind = 'n' then b.n else 0 end) as prepares
    from body as b
    join topic as t on t.topic_id = b.topic_id and t.relays
    join (
        select g.lower_id, g.upper_id, lead(g.lower_id, 1, g.upper_id) over (order by g.lower_id) as next_id
        from log_segment as g
    ) as s
        on b.batch_id >= s.lower_id and b.batch_id < s.upper_id and s.next_id = s.upper_id
    where b.sizes is not null
        and not exists (select from deleted as d)
    group by t.topic, b.queue_id, b.born_at
    having count(*) = count(distinct b.first_id)
) as p
where p.halves > 0 and p.halves <> p.prepares
union all
select
    null, null, b.queue_id, null, b.first_id,
    case
        when b.homeless then format('its record batch says topic %s, which never was', b.topic_id)
        else format('its record batch says producer group %s, which never was', b.producer_group_id)
    end
from body as b
where (b.homeless or b.groupless) and coalesce(b.intact, true)
union all
select r.consumer_group, r.topic, null, null, null, format('subscription %s is no member of its group', r.subscription_id)
from reader as r
where r.apart
union all
-- Where messages or cursors say so, too, that is the fault.
select
    null, t.topic, null, null, null,
    format('it has %s queues, and %s', t.queues,
        case when c.queues > t.queues then 'cursors of more' else 'the notes of added queues lead to another number' end)
from topic as t
left join (
    select r.topic_id, max(c.queue_id) + 1 as queues
    from cursor_now as c
    join reader as r on r.subscription_id = c.subscription_id
    group by 1
) as c on c.topic_id = t.topic_id
where (c.queues > t.queues or (not t.grew_so and coalesce(c.queues = t.queues, true)))
    and not exists (select from queue_row as q where q.topic_id = t.topic_id and q.queue_id >= t.queues)
union all
-- A handle with another incarnation is unknown.
select
    null, t.topic, b.queue_id, null, b.first_id,
    format('its handles have incarnation %s, and the broker is in its %s', coalesce(b.incarnation, 0), u.incarnation)
from body as b
join topic as t on t.topic_id = b.topic_id
cross join run as u
where b.kind = 'h' and coalesce(b.incarnation not between 1 and u.incarnation, true)
union all
select
    null, t.topic, d.queue_id, null, d.message_id,
    format('the %s decided it, and it is no %s message', d.decided_by, case d.stage when 0 then 'half' else 'delayed' end)
from odd_decision as d
join topic as t on t.topic_id = d.topic_id
where case d.stage when 0 then d.kind <> 'h' else d.due_at is null and not d.unscheduled end
union all
-- A tick does not fall behind the tick before it. A new segment begins with a copy of the last one. A
-- tick does not see its own transaction, and the ids that it has passed were drawn. The time that it has
-- reached moves with the clock, and stays if the clock goes back.
select
    null, null, null, null, null,
    format('tick %s is %s', k.tick_id, case when k.behind then 'behind the tick before it' else 'ahead of itself' end)
from (
    select
        n.*,
        n.due_until < n.due_before or n.floor_id < n.floor_before or n.batch_seq < n.batch_before
        or n.xid < n.xid_before or n.tick_id = n.id_before as behind
    from ticks as n
) as k
where k.behind or k.looked_up_wrongly or k.floor_id > k.batch_seq or pg_visible_in_snapshot(k.xid, k.snapshot)
    or (
        k.at >= k.at_before
        and k.due_until > k.at + interval '1 day'
        and k.due_until - k.due_before > k.at - k.at_before + interval '1 day'
    )
union all
-- If the clock really went away and came back, due_until is not between the times of the ticks around:
-- it goes forward with the clock, and stays when the clock goes back, but for the time since the next
-- delayed message was sent. In a backlog it is the time of a delayed message.
select
    null, null, null, null, null,
    format('the time of tick %s is %s, more than a day from the ticks before and after it', k.tick_id, k.at::text)
from ticks as k
cross join run as u
cross join horizon as h
where u.all_topics and k.due_until between k.at_before and k.at_after
    and (k.at > k.at_after + interval '1 day' or k.at_before > k.at + interval '1 day')
    and k.at_before > h.delayed_from
    and not exists (
        select from delayed as d
        where d.visible_at = k.due_until
            or (d.subscription_id = 0 and d.xid < k.xid and not pg_visible_in_snapshot(d.xid, k.seen_before))
    )
union all
select
    r.consumer_group, r.topic, j.queue_id, j.from_offset, null,
    format('a position jump of subscription %s names group %s and topic %s', j.subscription_id, j.consumer_group, j.topic)
from jump as j
join reader as r on r.subscription_id = j.subscription_id
where j.topic_id <> r.topic_id or j.topic <> r.topic or j.consumer_group <> r.consumer_group
union all
select
    null, w.topic, null, null, w.message_id,
    format('the time of %s is %s, more than a day after the audit or before what it follows', w.what, w.at::text)
from (
    select
        'its record batch' as what, t.topic, b.first_id as message_id, b.born_at as at,
        case when b.batch_id >= s.lower_id then s.opened_at end as follows
    from body as b
    join topic as t on t.topic_id = b.topic_id
    cross join (select min(g.lower_id) as lower_id, min(g.opened_at) as opened_at from log_segment as g) as s
    where b.kind <> 'h'
    union all
    select 'the creation of topic ' || t.topic, t.topic, null, t.created_at, null from topic as t
    union all
    select 'the creation of group ' || r.consumer_group, r.topic, null, r.created_at, null from reader as r
    union all
    select 'the creation of its producer group', null, min(b.first_id), b.group_created_at, null
    from body as b
    group by b.producer_group_id, b.group_created_at
    union all
    select 'the drop of its topic', null, min(b.first_id), b.topic_dropped_at, max(b.born_at)
    from body as b
    group by b.topic_id, b.topic_dropped_at
    union all
    select 'its effect', e.topic, e.message_id, e.applied_at, null from odd_effect as e
    union all
    select 'its ' || d.what, t.topic, d.message_id, d.at, d.born_at
    from odd_decision as d
    join topic as t on t.topic_id = d.topic_id
    union all
    select 'its dead letter', r.topic, l.message_id, o.at, o.follows
    from letter as l
    join reader as r on r.subscription_id = l.subscription_id
    left join message as m on m.message_id = l.message_id
    cross join lateral (select l.died_at as at, m.born_at as follows union all select l.left_at, l.died_at) as o
    union all
    select 'its position jump', j.topic, null, j.at, null from jump as j
    union all
    select 'its ledger row', l.topic, l.message_id, o.at, least(l.born_at, l.decided_at)
    from odd_match as l
    cross join lateral (select l.created_at as at union all select l.done_at) as o
    union all
    select format('version %s of a cursor', v.version), v.topic, null, v.at, v.previous_at
    from transition as v
) as w
where w.at > (select l.latest from limits as l) or w.follows > w.at + (select l.slack from limits as l)
union all
-- What is stored of a position in two columns.
select
    o.consumer_group, o.topic, o.queue_id, e.queue_offset, e.message_id,
    format('the group has stored the next offset %s, and that this message is the one before it', o.next_offset)
from stored_offset as o
join run as u on u.broker_id = o.broker
join topic as t on t.topic = o.topic
join entry as e
    on e.topic_id = t.topic_id and e.lane = 0 and e.queue_id = o.queue_id and e.message_id = o.last_message_id
where e.queue_offset >= o.next_offset
    and not exists (
        select from entry as b
        where b.topic_id = t.topic_id
            and b.lane = 0
            and b.queue_id = o.queue_id
            and b.message_id = o.last_message_id
            and b.queue_offset < o.next_offset
    )
union all
select
    o.consumer_group, o.topic, o.queue_id, o.next_offset, o.last_message_id,
    'the group has stored that this message is the last that it took, and the queue does not have it'
from stored_offset as o
join run as u on u.broker_id = o.broker
join topic as t on t.topic = o.topic
left join message as m on m.message_id = o.last_message_id
cross join horizon as h
where coalesce(m.topic_id = t.topic_id, true)
    and o.last_message_id >> 10 <= h.newest_id
    and not o.last_message_id <@ h.dropped_ids
    and not h.queues_dropped
    and not exists (
        select from entry as e
        where e.topic_id = t.topic_id
            and e.lane = 0
            and e.queue_id = o.queue_id
            and e.message_id = o.last_message_id
    )
union all
-- Where that column is empty, the journal beside it says how far the group was, unless a seek followed.
select
    p.consumer_group, p.topic, p.queue_id,
    min(d.queue_offset),
    null::bigint,
    format('the group has stored the next offset %s, and had applied and acknowledged more', p.next_offset)
from place as p
join cursor_now as c on c.subscription_id = p.subscription_id and c.queue_id = p.queue_id
join delivery as d
    on d.subscription_id = p.subscription_id and d.lane = p.lane and d.queue_id = p.queue_id
    and d.queue_offset >= p.next_offset and d.queue_offset < c.committed
where p.lane = 0 and d.times_applied > 0
    and not exists (
        select from stored_offset as o
        where o.consumer_group = p.consumer_group and o.topic = p.topic and o.queue_id = p.queue_id
            and o.last_message_id is not null
    )
    and not exists (
        select from jump as j
        where j.subscription_id = p.subscription_id
            and j.queue_id = p.queue_id
            and d.queue_offset >= j.from_offset
            and d.queue_offset < j.to_offset
    )
group by p.consumer_group, p.topic, p.queue_id, p.next_offset
union all
-- Ids of subscriptions ascend, and none is used again, unless the broker was restored. Members of a
-- broadcast group come and go.
select
    e.consumer_group, e.topic, e.queue_id, e.queue_offset, e.message_id,
    format('its row in the journal names subscription %s, and the group has %s', e.subscription_id,
        case when e.owner_id <> e.subscription_id then format('%s', e.owner_id) else 'another' end)
from odd_effect as e
join reader as r on r.subscription_id = e.owner_id and (e.strange or r.mode <> 'broadcast')
cross join run as u
cross join horizon as h
where u.incarnation = 1
    and (e.strange or e.subscription_id > e.owner_id or (e.subscription_id <> e.owner_id and not h.had_others))
union all
-- One that has ended has got no more than its cursors say.
select
    e.consumer_group, e.topic, e.queue_id, e.queue_offset, e.message_id,
    format('its row in the journal names subscription %s, which never got this offset', e.subscription_id)
from odd_effect as e
join (
    select v.subscription_id, v.queue_id, max(v.claimed) as claimed
    from cursor_version as v
    group by 1, 2
) as c on c.subscription_id = e.subscription_id and c.queue_id = e.queue_id
cross join run as u
where u.incarnation = 1 and e.subscription_id < e.owner_id and e.queue_offset >= c.claimed

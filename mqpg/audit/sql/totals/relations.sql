-- Both sides of FastMiniMQ's relations for each ledger, topic and consumer group with a journal.
-- confirmed: local rows that are marked done. A ledger in the broker's own database has no such
-- mark, so there a decision at the broker counts. open: the other local rows. consumed: messages in
-- the journal, each counted once. ahead: confirmed, and the group has not reached them yet.
-- excused: confirmed and not applied, because they are dead letters or in retry, from before the
-- group's start, recalled, or dropped. missing: confirmed and not applied for none of these reasons. extra:
-- consumed without a local row. purged: the same, but the row may have been deleted since.
-- overridden: the same, but an operator decided so by hand.
with applied as (
    select distinct e.consumer_group, e.topic_id, e.message_id
    from effect as e
    where exists (select from ledger_match as m where m.message_id = e.message_id)
),

outcome as (
    select
        d.consumer_group, d.topic_id, d.message_id,
        bool_or(d.dead or d.retry_attempt is not null) as excusable,
        bool_or(d.behind_position) as behind
    from delivery as d
    where d.lane = 0 and exists (select from ledger_match as m where m.message_id = d.message_id)
    group by 1, 2, 3
),

fact as (
    select
        m.ledger, g.consumer_group, m.topic,
        coalesce(m.entry = 'local', false) as local,
        coalesce(m.done_at is not null or (m.in_broker and m.state <> 'undecided'), false) as done,
        coalesce(m.decided_at < u.purged_before, false) as old,
        m.entry is null and coalesce(m.decided_by = 'admin', false) as by_hand,
        a.message_id is not null as consumed,
        o.message_id is not null as owed,
        coalesce(o.behind, false) as behind,
        coalesce(o.excusable, false) as excusable,
        -- The group does not have to apply a message that was in the queue before its start, or
        -- whose offset may be dropped.
        m.queued or m.may_be_dropped as not_owed,
        m.state
    from ledger_match as m
    join (
        select distinct p.consumer_group, p.topic_id
        from place as p
        where exists (
            select from delivery as d where d.subscription_id = p.subscription_id and d.topic_id = p.topic_id
        )
    ) as g on g.topic_id = m.topic_id
    left join applied as a
        on a.consumer_group = g.consumer_group and a.topic_id = m.topic_id and a.message_id = m.message_id
    left join outcome as o
        on o.consumer_group = g.consumer_group and o.topic_id = m.topic_id and o.message_id = m.message_id
    cross join run as u
    where m.audited
),

classed as (
    select
        f.*,
        f.local and f.done as confirmed,
        f.local and f.done and not f.consumed as unapplied,
        case
            when f.owed then not f.behind and not f.excusable
            else not f.not_owed and f.state in ('committed', 'delayed', 'undecided')
        end as ahead,
        case when f.owed then f.excusable else f.not_owed or f.state = 'recalled' end as excused
    from fact as f
)

select
    c.ledger, c.consumer_group, c.topic,
    count(*) filter (where c.confirmed) as confirmed,
    count(*) filter (where c.local and not c.done) as open,
    count(*) filter (where c.consumed) as consumed,
    count(*) filter (where c.unapplied and c.ahead) as ahead,
    count(*) filter (where c.unapplied and c.excused) as excused,
    count(*) filter (where c.unapplied and not c.ahead and not c.excused) as missing,
    count(*) filter (where c.consumed and not c.local and not c.old and not c.by_hand) as extra,
    count(*) filter (where c.consumed and not c.local and c.old and not c.by_hand) as purged,
    count(*) filter (where c.consumed and not c.local and c.by_hand) as overridden
from classed as c
group by 1, 2, 3

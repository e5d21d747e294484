-- What is no anomaly, at most as many of each kind as the parameter says.
-- override: half messages that an operator committed by hand, without a local transaction, because
-- settle() is there for that.
-- clock: effects or decisions whose times are in another order than they were.
-- journal: offsets that a group acknowledged while its consumers kept no journal.
with covered as (
    select
        p.subscription_id, p.queue_id,
        sum(
            greatest(0, least(p.next_offset, coalesce(s.to_offset, p.next_offset)) - greatest(p.start_offset, s.from_offset))
        ) as offsets
    from place as p
    join journal_span as s on s.subscription_id = p.subscription_id and s.queue_id = p.queue_id
    group by 1, 2
),

uncovered as (
    select
        p.consumer_group, p.topic, p.queue_id, p.start_offset,
        p.next_offset - p.start_offset - coalesce(case when p.journal then c.offsets end, 0) as offsets
    from place as p
    join journal_group as g on g.consumer_group = p.consumer_group
    left join covered as c on c.subscription_id = p.subscription_id and c.queue_id = p.queue_id
    where p.noted or not p.journal
),

note (kind, consumer_group, topic, queue_id, queue_offset, message_id, evidence) as (
    select
        'override', null::text, m.topic,
        null::int,
        null::bigint,
        m.message_id,
        format('committed by hand, the ledger %%s has no row', m.ledger)
    from odd_match as m
    where m.audited and m.state = 'committed' and m.entry is null and coalesce(m.decided_by = 'admin', false)
    union all
    select
        'journal', u.consumer_group, u.topic, u.queue_id, u.start_offset, null,
        format('%%s offsets were acknowledged without a journal, and their effects are not judged', u.offsets)
    from uncovered as u
    where u.offsets > 0
    union all
    select
        'clock', l.consumer_group, l.topic, null, null, null,
        format(
            '%%s have a time up to %%s s before that of what came first, %%s',
            count(*), round(max(l.seconds), 3),
            case
                when l.turned then 'and other records show that the clock went back'
                else format('within the tolerance of %%s s', max(l.tolerance))
            end
        )
    from lead as l
    where l.turned or l.seconds <= l.tolerance
    group by l.consumer_group, l.topic, l.turned
)

select n.kind, n.consumer_group, n.topic, n.queue_id, n.queue_offset, n.message_id, n.evidence
from (
    select
        w.*,
        row_number() over (
            partition by w.kind
            order by w.topic, w.consumer_group, w.queue_id, w.message_id
        ) as place
    from note as w
) as n
where n.place <= %s
order by n.kind desc, n.place

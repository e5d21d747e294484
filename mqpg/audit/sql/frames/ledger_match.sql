-- One row for each half message of a producer group with a ledger (audited), and one for each
-- ledger row without a half message. entry is null where the ledger has no row, state where the
-- broker has no half. message_id is the message that is delivered: for a half of a relay topic, its
-- COMMIT. seen: it is in a queue or applied. named_topic: the topic that the ledger's row names.
with half as (
    select
        m.message_id, m.handle_hash, m.topic_id, m.producer_group_id,
        case m.state when 'relayed' then 'committed' else m.state end as state,
        m.relayed_as, m.born_at, m.decided_at, m.decided_by, m.check_at, m.expected, m.may_be_dropped
    from message as m
    where m.kind = 'h'
),

-- The record batches of outboxes that are beside a ledger.
outbox_batch as (
    select distinct b.batch_id, g.ledger
    from body as b
    join outbox_group as g on g.producer_group_id = b.producer_group_id and g.identity = b.ledger
),

matched as (
    select
        g.ledger, g.in_broker, true as audited, h.message_id, h.topic_id, h.state, h.relayed_as,
        h.born_at, h.decided_at, h.decided_by, h.check_at, h.expected, h.may_be_dropped, r.entry, r.created_at,
        r.done_at, r.topic as named_topic
    from half as h
    join ledger_group as g on g.producer_group_id = h.producer_group_id
    left join ledger_row as r
        on r.ledger = g.ledger and r.message_id = h.message_id and r.handle_hash = h.handle_hash
    where not exists (select from outbox_batch as b where b.batch_id = h.message_id >> 10)
    union all
    -- An outbox deletes the row of a message that the broker has for good. So a committed half
    -- without a row is local and done.
    select
        g.ledger, g.in_broker, true, h.message_id, h.topic_id, h.state, h.relayed_as, h.born_at,
        h.decided_at, h.decided_by, h.check_at, h.expected, h.may_be_dropped,
        case
            when o.state = 'commit' or confirmed.confirmed then 'local'
            when o.state = 'rollback' then 'fence'
        end,
        null,
        case when confirmed.confirmed then h.decided_at end,
        o.topic
    from half as h
    join (
        select distinct g.producer_group_id, g.ledger, g.in_broker, g.identity is null as alone
        from outbox_group as g
    ) as g on g.producer_group_id = h.producer_group_id
    left join outbox as o on o.ledger = g.ledger and o.message_id = h.message_id
    cross join lateral (select o.state is null and h.state = 'committed' as confirmed) as confirmed
    where g.alone
        or exists (select from outbox_batch as b where b.batch_id = h.message_id >> 10 and b.ledger = g.ledger)
    union all
    -- A ledger may also serve producer groups that are not audited. Their half messages exist.
    select
        r.ledger, null, false, r.message_id, null, null, null, null, null, null, null, null, null,
        r.entry, r.created_at, r.done_at, r.topic
    from ledger_row as r
    where not exists (select from half as h where h.message_id = r.message_id and h.handle_hash = r.handle_hash)
        and not exists (
            select from other_half as o
            where o.first_id >> 10 = r.message_id >> 10
                and r.message_id >= o.first_id
                and r.message_id < o.first_id + o.n
        )
)

select
    d.ledger, d.in_broker, d.audited, d.message_id, d.topic_id, t.topic, d.state, d.born_at, d.decided_at,
    d.decided_by, d.check_at, d.expected, d.may_be_dropped, d.entry, d.created_at, d.done_at,
    d.named_topic,
    q.message_id is not null as queued,
    coalesce(q.message_id, n.message_id) is not null as seen
from (
    select
        m.ledger, m.in_broker, m.audited,
        coalesce(m.relayed_as, m.message_id) as message_id,
        m.topic_id, m.state, m.born_at, m.decided_at, m.decided_by, m.check_at, m.expected, m.may_be_dropped,
        m.entry, m.created_at, m.done_at, m.named_topic
    from matched as m
) as d
left join topic as t on t.topic_id = d.topic_id
left join queued as q on q.message_id = d.message_id
left join unqueued as n on n.message_id = d.message_id

-- corrupt: a record batch that is incomplete or was changed, or a body that is not the message's own.
with final as (
    select
        m.message_id, m.topic_id, m.queue_id, m.deliver_id, b.kind as body_kind, b.xid as body_xid, b.topic_id as body_topic,
        m.commit_xid,
        count(*) over (partition by m.deliver_id) as times
    from message as m
    join message as b on b.message_id = m.deliver_id
    where m.kind = 'h' and m.deliver_id is not null
        -- The rollback of a relay topic's half message is a message, too.
        and exists (
            select from topic as t where t.topic_id = m.topic_id and not (t.relays and m.state = 'rolled_back')
        )
),

-- One call gives the bodies that it writes ids in the order of its half messages.
exchanged as (
    select b.message_id
    from (
        select
            d.message_id,
            coalesce(d.deliver_id, d.relayed_as) as body_id,
            max(coalesce(d.deliver_id, d.relayed_as)) over (
                partition by d.order_no order by d.message_id rows between unbounded preceding and 1 preceding
            ) as body_before
        from decision as d
        where d.stage = 0 and coalesce(d.deliver_id, d.relayed_as) is not null
    ) as b
    where b.body_id <= b.body_before
),

wrong_final as (
    select f.*
    from final as f
    left join exchanged as x on x.message_id = f.message_id
    where f.body_kind <> 'f' or f.body_xid <> f.commit_xid or f.body_topic <> f.topic_id or f.times > 1
        or x.message_id is not null
),

-- The message that carries the commit of a half message of a relay topic. The same transaction wrote
-- it, into the same queue, with the same key.
wrong_relay as (
    select m.topic_id, m.queue_id, m.message_id, m.relayed_as
    from odd_message as m
    left join message as b on b.message_id = m.relayed_as
    left join queued as q on q.message_id = m.relayed_as
    left join exchanged as x on x.message_id = m.message_id
    cross join horizon as h
    where m.state = 'relayed'
        and (
            b.message_id is null and q.message_id is null and not m.relayed_as <@ h.dropped_ids
            or b.kind not in ('n', 'd')
            or x.message_id is not null
            or b.xid <> m.commit_xid
            or b.topic_id <> m.topic_id
            or b.queue_id <> m.queue_id
            or b.key_hash is distinct from m.key_hash
        )
),

named as (
    select e.message_id, e.body_id, 'queue' as place
    from odd_entry as e
    where e.state = 'committed' and not e.own_body
    union all
    select d.message_id, coalesce(d.deliver_id, d.message_id), 'delayed row'
    from delayed as d
    union all
    select l.message_id, l.deliver_id, 'dead letter'
    from judged_letter as l
    where l.present
),

found as (
    select
        b.topic_id, b.queue_id, b.first_id as message_id,
        format(
            'a record batch of %s messages has %s payloads, keys, tags and headers', b.n, to_json(b.sizes)
        ) as evidence
    from body as b
    where b.sizes is not null
        and (
            b.sizes[1] is null
            or b.sizes[1] <> b.n or b.sizes[2] <> b.n or b.sizes[3] <> b.n or b.sizes[4] <> b.n
        )
    union all
    select
        b.topic_id, b.queue_id, b.first_id,
        case
            when b.intact is null then format('a record batch of %s messages has no checksum, and its topic asks for one', b.n)
            else format('a record batch of %s messages does not match its checksum', b.n)
        end
    from body as b
    left join topic as t on t.topic_id = b.topic_id
    cross join setback as s
    where b.sizes[1] = b.n
        and not coalesce(b.sizes[2] <> b.n or b.sizes[3] <> b.n or b.sizes[4] <> b.n, false)
        and (not b.intact or (b.intact is null and b.born_at - s.back > t.summed_from))
    union all
    select
        b.topic_id, b.queue_id, b.first_id,
        format('a record batch of kind %s, and by its other columns and tables of kind %s', b.kind,
            case when m.kind <> b.kind then m.kind when b.kind = 'h' then 'n' else 'h' end)
    from body as b
    join message as m on m.message_id = b.first_id
    where m.kind <> b.kind or b.sizes is not null and case
        when b.kind = 'h' then b.producer_group_id is null or b.check_at is null
        else coalesce(b.producer_group_id, b.incarnation) is not null or b.check_at is not null or b.delay is not null or b.relay
    end
    union all
    select
        w.topic_id, w.queue_id, w.message_id,
        format('its decision names the body %s, which is another message''s', w.deliver_id)
    from wrong_final as w
    union all
    select
        w.topic_id, w.queue_id, w.message_id,
        format('its decision names the message %s, which another one wrote', w.relayed_as)
    from wrong_relay as w
    union all
    -- Where the decision itself names another message's body, that is the fault.
    select
        m.topic_id, null, m.message_id,
        format('its %s names the body %s, which is another message''s', n.place, n.body_id)
    from named as n
    join message as m on m.message_id = n.message_id
    where n.body_id <> coalesce(m.deliver_id, m.message_id)
        and not exists (select from wrong_final as w where w.message_id = n.message_id)
)

select
    null as consumer_group, t.topic, f.queue_id,
    null::bigint as queue_offset,
    f.message_id, f.evidence
from (
    select f.*, row_number() over (partition by f.message_id order by f.evidence collate "C") as nth
    from found as f
) as f
join topic as t on t.topic_id = f.topic_id
where f.nth = 1

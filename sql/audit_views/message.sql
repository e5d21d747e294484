-- Messages and half messages that are still stored, one row for each, without their contents. The
-- log has record batches of up to 1024 messages, and generate_series() makes a row of each message.
-- A message's id is batch_id * 1024 + its position in the batch.
-- A condition on batch_id reaches the log below the expansion, so it leaves out partitions and uses
-- the index. A condition on message_id or on a time does not: those are computed for each row, or
-- have no index. `message_id = 2050` is therefore asked as `batch_id = 2050 / 1024 and message_id =
-- 2050`, and a time is first looked up in segment.
-- Messages that outlived their segment are in a table of their own, which is small.
-- Cost: the record batches in the range of batch_id; one index lookup in the op log for each half
-- or delayed message. If key_hash or payload_bytes is read, also the keys or the bodies of these
-- batches, once for each batch; if handle_hash is read, three hashes for each half message.
create view mqpg_audit.message as
select b.first_id + i.i as message_id, b.batch_id, b.topic_id, t.name as topic, b.queue_id::int as queue_id,
    case b.kind when 'h' then 'half' when 'd' then 'delayed' else 'normal' end as kind,
    case
        when b.kind = 'h' and d.op is null and not b.decision_gone then 'undecided'
        when b.kind = 'h' and d.op = 'b' then 'rolled_back'
        when d.relayed_as is not null then 'relayed'
        when d.recalled then 'recalled'
        else 'committed'
    end as state,
    b.born_at as created_at,
    case when b.kind <> 'h' then b.born_at when d.op = 'c' then d.decided_at end as committed_at, d.decided_at,
    b.check_at, g.name as producer_group, b.incarnation, d.relayed_as, b.kept, w.key_hashes[i.i + 1] as key_hash,
    case
        when b.kind = 'h' then
            encode(sha256(substr(sha256(uuid_send(b.nonce) || int8send(b.first_id + i.i)), 1, 16)), 'hex')
    end as handle_hash,
    w.sizes[i.i + 1] as payload_bytes
from (
    select l.batch_id, l.batch_id * 1024 as first_id, l.n::int as n, l.topic_id, l.queue_id, l.kind, l.born_at,
        l.check_at, l.producer_group_id, l.incarnation, l.nonce, l.keys, l.payloads, false as kept,
        false as decision_gone
    from mqpg.commit_log as l
    union all
    select h.message_id >> 10 as batch_id, h.message_id as first_id, 1 as n, h.topic_id, h.queue_id, h.kind, h.born_at,
        h.check_at, h.producer_group_id, h.incarnation, h.nonce, array[h.key] as keys, array[h.payload] as payloads,
        true as kept,
        (
            select count(*) from mqpg.segment as s
            where s.family = 'log' and (s.dropped_at is not null or s.leaving in ('op_log', 'check_log'))
                and s.lower_bound::bigint <= h.message_id >> 10 and s.upper_bound::bigint > h.message_id >> 10
        ) > 0 as decision_gone
    from mqpg.held as h
    where not exists (
        select from mqpg.commit_log as c
        where c.batch_id = h.message_id >> 10
    )
) as b
cross join lateral generate_series(0, b.n - 1) as i (i)
-- ORDER BY: computed once for each batch, and not at all where nobody reads it.
cross join lateral (  -- noqa: ST05
    select
        case
            when b.keys is not null then array(
                select hashtextextended(k.key, (select r.key_hash_seed from mqpg.broker as r))
                from unnest(b.keys) with ordinality as k (key, place)
                order by k.place
            )
        end as key_hashes,
        array(
            select octet_length(p.payload::text)
            from unnest(b.payloads) with ordinality as p (payload, place)
            order by p.place
        ) as sizes
    order by b.batch_id
) as w
cross join lateral (
    select max(o.op::text) filter (where o.stage = 0) as op, max(o.at) filter (where o.stage = 0) as decided_at,
        max(coalesce(o.deliver_id, o.message_id))
            filter (where o.stage = 0 and o.visible_at = 'infinity') as relayed_as,
        bool_or(o.stage = 1 and o.op = 'r') as recalled
    from mqpg.op_log as o
    where o.message_id = b.first_id + i.i and b.kind <> 'n'
) as d
left join mqpg.topic as t on b.topic_id = t.topic_id
left join mqpg.producer_group as g on b.producer_group_id = g.producer_group_id
where b.kind <> 'f';
-- message_id: Id of the message: batch_id * 1024 + position
-- batch_id: message_id / 1024; the cut column, the only one whose conditions leave out partitions
-- topic_id: Id of the topic
-- topic: Name of the topic; null: it was dropped
-- queue_id: The queue of the topic that it belongs to, from 0
-- kind: normal | half (prepared, then decided) | delayed (sent for a later time)
-- state: committed | undecided (a half without a decision) | rolled_back | recalled (before its time) | relayed (a
--     committed half of a relay topic, which is delivered as the message relayed_as)
-- created_at: When it was sent or prepared
-- committed_at: Half: when it was decided to commit. Else created_at, because PostgreSQL notes no time of a commit
-- decided_at: Half: when it was committed or rolled back; null: not yet, or forgotten by retention, or no half
-- check_at: Half: from this time on an undecided one is overdue; else null
-- producer_group: Half: its producer group; null: no half, or the group was dropped
-- incarnation: Half: incarnation of the broker when it was prepared, the second part of its handle; else null
-- relayed_as: State relayed: id of the message that delivers it; else null
-- kept: true: retention dropped its batch, and the message was kept because somebody still needs it
-- key_hash: Equal for equal keys; null: without key. It depends on a secret of the broker
-- handle_hash: Half: SHA-256 in hexadecimal digits of the 16 bytes that the last part of its handle writes; else
--     null
-- payload_bytes: Size of the payload as it was sent or prepared, in bytes

-- What became of half messages, in argument order; see half_states().
-- Locks: none. Cost: a few index lookups for each handle.
create function mqpg._half_states(handles text []) returns table (
    handle text, state text, parked boolean, message_id bigint, topic text, key text
)
language sql stable as $$
    with named as materialized (
        select u.handle, u.place, p.message_id, p.nonce, p.incarnation
        from unnest(_half_states.handles) with ordinality as u(handle, place)
        left join lateral mqpg._parse_handle(u.handle) as p
            on p.broker_id = (select b.broker_id from mqpg.broker b)
    )
    select n.handle,
        case
            when o.op = 'c' then 'committed'
            when o.op = 'b' then 'rolled_back'
            when h.topic_id is not null then 'undecided'
            when d.dropped then 'forgotten'
            else mqpg._unknown(n.handle)
        end,
        h.topic_id is not null and o.op is null and exists (
            select from pgmq.a_mqpg_oplog a where (a.message ->> 'message_id')::bigint = n.message_id),
        case when h.topic_id is not null or d.dropped then n.message_id end, t.name, h.key
    from named n
    left join lateral (
        select m.topic_id, m.key from mqpg._message(n.message_id) m
        where mqpg._handle_nonce(m.nonce, n.message_id) = uuid_send(n.nonce) and m.incarnation = n.incarnation
    ) as h on true
    cross join lateral (
        select h.topic_id is null and exists (
            select from mqpg.segment s
            where s.family = 'log' and (s.body_dropped_at is not null or s.left_out <> '{}')
                and n.message_id >= s.lower_bound::bigint * 1024 and n.message_id < s.upper_bound::bigint * 1024
        ) as dropped
    ) as d
    left join mqpg.op_log o on o.message_id = n.message_id and o.stage = 0 and (h.topic_id is not null or d.dropped)
    left join mqpg.topic t on t.topic_id = h.topic_id
    order by n.place
$$;

-- What became of half messages, in argument order. state: undecided, committed, rolled_back, or unknown for whatever
-- names no half message here; an undecided one may be parked. Topic and key are null where it is unknown.
-- Locks: none. Cost: two index lookups a handle. Errors: MQ001 (nulls).
create function mqpg.half_states(handles text []) returns table (
    handle text, state text, parked boolean, message_id bigint, topic text, key text
)
language plpgsql stable set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    if half_states.handles is null or array_position(half_states.handles, null) is not null then
        raise exception using errcode = 'MQ001', message = 'handles must not be null, nor any of them';
    end if;
    return query
    select u.handle,
        case
            when not h.known then 'unknown'
            when o.op is null then 'undecided'
            when o.op = 'c' then 'committed'
            else 'rolled_back'
        end,
        h.known and o.op is null and exists (
            select from pgmq.a_mqpg_oplog a where (a.message ->> 'message_id')::bigint = h.message_id),
        h.message_id, h.topic, h.key
    from unnest(half_states.handles) with ordinality as u(handle, place)
    cross join lateral mqpg._half(u.handle) as h
    left join mqpg.op_log o on o.message_id = h.message_id and o.stage = 0 and h.known
    order by u.place;
end
$$;
comment on function mqpg.half_states(text [])
    is 'What became of half messages: undecided, committed, rolled_back, unknown';

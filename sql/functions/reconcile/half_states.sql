-- What became of half messages, in argument order.
-- Arguments:
--   handles: the handles from prepare(); none may be null.
-- Returns: state is undecided, committed, rolled_back, forgotten (decided so long ago that the
-- decision was dropped) or unknown (no half message of this broker); parked is true for an
-- undecided one that waits for an administrator; topic and key are null if the message is gone.
-- Locks: none. Cost: a few index lookups for each handle.
-- Errors: MQ001 (a null, or an array of arrays).
create function mqpg.half_states(handles text []) returns table (
    handle text, state text, parked boolean, message_id bigint, topic text, key text
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
begin
    if array_ndims(half_states.handles) > 1 then
        raise exception using errcode = 'MQ001', message = 'handles must be a one-dimensional array';
    end if;
    if half_states.handles is null or array_position(half_states.handles, null) is not null then
        raise exception using errcode = 'MQ001', message = 'handles must not be null or contain null';
    end if;
    if not mqpg._has_privilege('operator', 'worker') then
        perform mqpg._require_half_of(null);
        perform mqpg._require_half_of(r.producer_group_id)
        from unnest(half_states.handles) as u(handle)
        cross join lateral mqpg._parse_handle(u.handle) as p
        cross join lateral mqpg._half_by_id(p.message_id) as r
        where mqpg._handle_nonce(r.nonce, p.message_id) = uuid_send(p.nonce);
    end if;
    return query select h.* from mqpg._half_states(half_states.handles) h;
end
$$;

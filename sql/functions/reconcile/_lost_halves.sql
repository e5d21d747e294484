-- Which of these handles name half messages that this broker has lost: it issued them in an earlier
-- incarnation, has no trace of them now, and no retention can have dropped them. A promoted standby
-- that lacked the last transactions does not know them, and neither does a copy that was restored.
-- A handle of the present incarnation is never among them, because another server may still have
-- its row. Other texts and other brokers' handles are never lost.
-- If keep() drops or merges the segment meanwhile, the caller's snapshot may show neither the row
-- nor what keep() did. Such a handle is not among them either: it would be sent twice.
-- Locks: none. Cost: one row of the commit log read for each.
create function mqpg._lost_halves(handles text []) returns setof text
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_half_of(null);
    if _lost_halves.handles is null then
        raise exception using errcode = 'MQ001', message = 'handles must not be null';
    end if;
    return query
    select u.handle
    from unnest(_lost_halves.handles) with ordinality as u (handle, place)
    cross join lateral mqpg._parse_handle(u.handle) as p
    join mqpg.broker b on b.broker_id = p.broker_id and p.incarnation < b.incarnation
    where not exists (
            select from mqpg._half_by_id(p.message_id) h
            where h.incarnation = p.incarnation
                and mqpg._handle_nonce(h.nonce, p.message_id) = uuid_send(p.nonce))
        and not exists (
            select from mqpg.segment s
            where s.family = 'log' and (s.body_dropped_at is not null or s.left_out <> '{}'
                    or not mqpg._is_attached('commit_log', s.segment_no))
                and p.message_id / 1024 >= s.lower_bound::bigint and p.message_id / 1024 < s.upper_bound::bigint)
        and not exists (
            select from mqpg.segment_merge m
            where m.family = 'log' and p.message_id / 1024 >= m.lower_bound::bigint
                and p.message_id / 1024 < m.upper_bound::bigint)
    order by u.place;
end
$$;

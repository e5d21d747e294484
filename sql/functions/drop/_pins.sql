-- What subscriptions (or one) have not read of closed tick segments, which keeps these from being
-- dropped. For each queue (-1: the retry lane) it returns the offsets, how many messages these are
-- at most, and about how many bytes they take.
-- Locks: none.
-- Cost: for each segment three index lookups for each queue of each subscription, and the sizes of
-- up to 64 record batches for each row.
create function mqpg._pins(subscription_id int default null) returns table (
    consumer_group text, member text, topic text, queue_id int, segment_no bigint, closed_at timestamptz,
    from_offset bigint, to_offset bigint, messages bigint, bytes bigint
)
-- generic plans, because the view pins calls it for each subscription
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan as $$
declare
    v_ids int [] := array[_pins.subscription_id];
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    if _pins.subscription_id is null then
        v_ids := array(select s.subscription_id from mqpg.subscription s);
    end if;
    return query
    select u.consumer_group, u.member, u.topic, u.queue_id, s.segment_no, s.closed_at, f.from_offset, u.next_offset,
        u.next_offset - f.from_offset, b.bytes
    from mqpg.segment s
    cross join lateral mqpg._undelivered(s.lower_bound::bigint, s.upper_bound::bigint) u
    cross join lateral (select greatest(u.committed, u.first_offset) as from_offset) f
    cross join lateral (select mqpg._stored_bytes(
        u.topic_id, u.queue_id, case u.queue_id when -1 then u.subscription_id else 0 end, f.from_offset,
        u.next_offset) as bytes) b
    where s.family = 'tick' and s.closed_at is not null and s.body_dropped_at is null
        and u.subscription_id = any(v_ids);
end
$$;

-- Notes which log segment is in use, and begins the next one when the current one is older than the
-- setting `segment_age`, by setting the batch id sequence to the next segment's lower bound. It
-- moves the sequence only forward, only to a segment that an earlier transaction made, and only
-- while the sequence is at least a million ids away from that bound, so that no concurrent draw can
-- be beyond it. It leaves an empty segment alone.
-- `last_value` must have been read before this transaction had an xid. Every open transaction with
-- a lower batch id then has an xid older than opened_xid, which the closing of the segment relies
-- on.
-- Locks: the caller holds the keeper's.
-- Cost: a few lookups.
create function mqpg._roll_log(last_value bigint)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_current mqpg.segment;
    v_next mqpg.segment;
begin
    for v_current in
        update mqpg.segment s set opened_at = clock_timestamp(), opened_xid = pg_current_xact_id()
        where s.family = 'log' and s.opened_xid is null and s.segment_no > 1
            and s.lower_bound::bigint <= _roll_log.last_value
        returning s.*
    loop
        return query select 'opened', 'log', v_current.segment_no, 'in use from batch id ' || v_current.lower_bound;
    end loop;
    select s.* into v_current from mqpg.segment s
    where s.family = 'log' and s.lower_bound::bigint <= _roll_log.last_value
        and s.upper_bound::bigint > _roll_log.last_value;
    if not found or v_current.opened_at > clock_timestamp() - mqpg._segment_age('log')
        or _roll_log.last_value <= v_current.lower_bound::bigint
        or _roll_log.last_value > v_current.upper_bound::bigint - 1000000 then
        return;
    end if;
    select s.* into v_next from mqpg.segment s
    where s.family = 'log' and s.lower_bound::bigint >= v_current.upper_bound::bigint
    order by s.segment_no limit 1;
    if found then
        perform setval('mqpg.batch_id', v_next.lower_bound::bigint);
        return query select 'rolled', 'log', v_current.segment_no,
            format('older than %s: batch ids continue in segment %s', mqpg._segment_age('log'), v_next.segment_no);
    end if;
end
$$;

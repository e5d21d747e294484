-- Drops one table of the oldest expired tick segment: consume_queue first, then tick, then
-- half_tick. The segment stays while a subscription still needs an offset in it. Segments are
-- dropped in order only, because a queue's oldest offset is that of its oldest row, and from there
-- on every message must exist. With the last table, rows of small tables that are no longer needed
-- are deleted too.
-- Locks: the appender's, tried only, because append() must find the table or the noted end of the
-- queue; the queues' rows in queue_tail; ACCESS EXCLUSIVE on the partition and the parent, waited
-- for at most 100 ms.
-- Cost: reads the segment's consume_queue once.
create function mqpg._drop_ticks(no bigint)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment;
    v_from bigint;
    v_to bigint;
    v_parent text;
    v_pins text;
begin
    select s.* into v_segment from mqpg.segment s
    where s.family = 'tick' and s.segment_no = _drop_ticks.no;
    v_from := v_segment.lower_bound;
    v_to := v_segment.upper_bound;
    select f.parent into v_parent from mqpg._family_tables('tick') f
    where to_regclass(format('mqpg.%s_%s', f.parent, v_segment.segment_no)) is not null limit 1;
    if v_parent = 'consume_queue' then
        select string_agg(format('%s has %s %s at %s of %s',
            u.consumer_group || coalesce(' / ' || nullif(u.member, ''), ''),
            u.topic, case when u.queue_id = -1 then 'retries' else 'queue ' || u.queue_id end, u.committed,
            u.next_offset), '; ')
        into v_pins from (select p.* from mqpg._undelivered(v_from, v_to) p limit 5) u;
        if v_pins is not null then
            return query select 'pinned', 'tick', v_segment.segment_no, v_pins;
            return;
        end if;
    end if;
    if v_parent = 'half_tick' then
        return query select p.* from mqpg._purge() p;
    end if;
    begin
        if not pg_try_advisory_xact_lock(1836150834, 0) then
            raise lock_not_available;
        end if;
        if v_parent = 'consume_queue' then
            perform mqpg._note_tails(v_from, v_to);
            if not mqpg._lock_partition(v_parent, v_segment.segment_no)
                or exists (select from mqpg._undelivered(v_from, v_to)) then
                raise lock_not_available;
            end if;
        end if;
        if not mqpg._drop_partition(v_parent, v_segment.segment_no) then
            raise lock_not_available;
        end if;
    exception when lock_not_available then
        return query
        select 'blocked', 'tick', v_segment.segment_no, v_parent || ' is in use; the next keep() tries again';
        return;
    end;
    update mqpg.segment s set
        body_dropped_at = coalesce(s.body_dropped_at, clock_timestamp()),
        dropped_at = case when v_parent = 'half_tick' then clock_timestamp() end
    where s.family = 'tick' and s.segment_no = v_segment.segment_no;
    return query select 'dropped', 'tick', v_segment.segment_no, v_parent || '_' || v_segment.segment_no;
end
$$;
comment on function mqpg._drop_ticks(bigint) is
    'Internal: drop an expired tick segment that is no longer needed';

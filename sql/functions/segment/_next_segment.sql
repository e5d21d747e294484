-- The bounds of the segment that a family needs next, or no row when enough are made ahead.
-- log and tick: `segments_ahead` after the one in use. cursor: only the first one, because keep()
-- makes the others by age. delayed and dedup: as many slots after the current time, and at least
-- ten minutes, because keep() may come only every few minutes. dedup has several slots per segment
-- (see _dedup_segment_slots()), and a changed dedup_window renumbers them, so gaps are looked for.
-- Locks: none. Cost: a few index lookups.
create function mqpg._next_segment(
    family text, out lower_bound text, out upper_bound text, out opened boolean
) returns setof record
language plpgsql as $$
declare
    v_ahead int := mqpg._setting('segments_ahead');
    v_length bigint;
    v_slots bigint;
    v_slot interval;
    v_at bigint;
    v_end bigint;
    v_until timestamptz;
    v_last timestamptz;
begin
    if _next_segment.family in ('log', 'tick') then
        if _next_segment.family = 'log' then
            select b.last_value into v_at from mqpg.batch_id b;
            v_length := mqpg._setting('segment_ids');
        else
            select greatest(
                (select max(t.tick_id) from mqpg.tick t), (select max(h.half_tick_id) from mqpg.half_tick h), 0)
            into v_at;
            v_length := mqpg._setting('segment_ticks');
        end if;
        select coalesce(max(s.upper_bound::bigint), 0), count(*) filter (where s.upper_bound::bigint > v_at)
        into v_end, v_ahead
        from mqpg.segment s where s.family = _next_segment.family;
        if v_ahead > mqpg._setting('segments_ahead')::int then
            return;
        end if;
        -- A sequence that was set far ahead (promotion, restore) needs no segments for the ids in
        -- between.
        v_end := greatest(v_end, v_at / v_length * v_length);
        lower_bound := v_end;
        upper_bound := v_end + v_length;
        opened := v_ahead = 0;
        return next;
    elsif _next_segment.family = 'cursor' then
        if not exists (select from mqpg.segment s where s.family = 'cursor') then
            lower_bound := 1;
            upper_bound := 2;
            opened := true;
            return next;
        end if;
    elsif _next_segment.family = 'delayed' then
        v_slot := mqpg._setting('delayed_slot');
        select max(s.upper_bound::timestamptz) into v_last from mqpg.segment s where s.family = 'delayed';
        v_until := to_timestamp(ceil(extract(epoch from clock_timestamp() + mqpg._ahead()) / extract(epoch from v_slot))
            * extract(epoch from v_slot));
        if v_last is null or v_last < v_until + greatest(v_ahead * v_slot, interval '10 minutes') then
            lower_bound := coalesce(
                to_char(v_last at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '-infinity');
            upper_bound := to_char(greatest(v_until, v_last + greatest(v_slot, interval '5 minutes'))
                at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
            opened := true;
            return next;
        end if;
    elsif _next_segment.family = 'dedup' then
        v_at := mqpg._dedup_slot();
        v_slots := mqpg._dedup_segment_slots();
        v_end := v_at + v_slots * (v_ahead + 1);
        loop
            exit when v_at >= v_end;
            select s.upper_bound::bigint into v_length from mqpg.segment s
            where s.family = 'dedup' and s.dropped_at is null
                and v_at >= s.lower_bound::bigint and v_at < s.upper_bound::bigint;
            if not found then
                lower_bound := v_at;
                upper_bound := least(v_at + v_slots, (
                    select min(s.lower_bound::bigint) from mqpg.segment s
                    where s.family = 'dedup' and s.dropped_at is null and s.lower_bound::bigint > v_at));
                opened := true;
                return next;
                return;
            end if;
            v_at := v_length;
        end loop;
    end if;
end
$$;

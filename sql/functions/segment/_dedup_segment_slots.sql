-- How many slots a segment of dedup has: 12, and more than five minutes have where the window is
-- short. A segment in use and one ahead of it, the least that segments_ahead allows, therefore last
-- for ten minutes without keep(), although the current slot has partly passed and each id also goes
-- into the next one.
-- Locks: none. Cost: one index lookup in a tiny table.
create function mqpg._dedup_segment_slots() returns bigint
language sql stable as $$
    select greatest(12, ceil(
        extract(epoch from interval '5 minutes')
        / extract(epoch from mqpg._setting('dedup_window')::interval))::bigint + 1)
$$;

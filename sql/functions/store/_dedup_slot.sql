-- The current slot of the table dedup. Slots are counted in lengths of the window, by default the
-- setting dedup_window.
-- Locks: none. Cost: one index lookup in a tiny table.
create function mqpg._dedup_slot(dedup_window interval default null) returns bigint
language sql volatile as $$
    select floor(extract(epoch from clock_timestamp() + mqpg._ahead())
        / extract(epoch from coalesce(_dedup_slot.dedup_window, mqpg._setting('dedup_window')::interval)))::bigint
$$;

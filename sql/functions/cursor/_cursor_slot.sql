-- The slot that new cursors are written to, which is the newest one that keep() made.
-- Locks: none. Cost: one index lookup.
create function mqpg._cursor_slot() returns int
language sql stable as $$
    select max(s.segment_no)::int from mqpg.segment s where s.family = 'cursor' and s.closed_at is null
$$;
comment on function mqpg._cursor_slot() is 'Internal: newest cursor slot';

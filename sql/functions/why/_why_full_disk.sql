-- The disk, if it is full: then nothing can be sent, received or acknowledged.
-- Locks: none. Cost: that of _disk_is_full().
create function mqpg._why_full_disk() returns table (cause text, detail jsonb, remedy jsonb)
language sql as $$
    select 'disk_full', '{}'::jsonb, null::jsonb where mqpg._disk_is_full()
$$;

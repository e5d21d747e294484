-- Makes a closed slot of cursor or delayed read-only before it is archived, because a transaction
-- with an old snapshot could still write into it. Other tables are complete when they are listed.
-- Returns false while a transaction that wrote into it is open.
-- Locks, cost: see _seal_partition().
create function mqpg._seal_for_archive(family text, segment_no bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('worker');
    if _seal_for_archive.family not in ('cursor', 'delayed') then
        return true;
    end if;
    if not exists (
        select from mqpg.segment s
        where s.family = _seal_for_archive.family and s.segment_no = _seal_for_archive.segment_no
            and s.closed_at is not null and s.body_dropped_at is null
    ) then
        return false;
    end if;
    return mqpg._seal_partition(_seal_for_archive.family, _seal_for_archive.segment_no);
end
$$;

-- Reports that a closed segment has to wait for the archive, or returns no row.
-- Locks: none. Cost: see _awaits_archive().
create function mqpg._report_awaited(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language sql stable as $$
    select 'blocked', (_report_awaited.segment).family, (_report_awaited.segment).segment_no,
        'waits for the archive, for which a topic with messages in it asks'
    where mqpg._awaits_archive(_report_awaited.segment)
$$;

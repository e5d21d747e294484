-- Whether a table of a segment is complete, and keep() has released nothing of it.
-- Locks: none. Cost: negligible.
create function mqpg._may_archive(segment mqpg.segment, parent text) returns boolean
language sql stable as $$
    select (_may_archive.segment).closed_at is not null and (_may_archive.segment).dropped_at is null and case
        when _may_archive.parent = 'op_log'
            then (_may_archive.segment).decided_at is not null
                and coalesce((_may_archive.segment).leaving, 'commit_log') = 'commit_log'
        else (_may_archive.segment).body_dropped_at is null
    end
$$;

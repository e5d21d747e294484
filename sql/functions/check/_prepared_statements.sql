-- A text that differs after a PREPARE or a DEALLOCATE in this session.
-- Locks: none. Cost: negligible.
create function mqpg._prepared_statements() returns text
language sql volatile as $$
    select string_agg(concat(s.name, s.prepare_time, s.statement), ',' order by s.name)
    from pg_prepared_statements s
$$;

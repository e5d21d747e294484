-- A length of time for a sentence: seconds below two minutes, else its two largest units. What is
-- negative counts as 0 s.
-- Locks: none. Cost: negligible.
create function mqpg._duration(length interval) returns text
language sql immutable strict as $$
    select case
        when s.seconds < 120 then s.seconds || ' s'
        when s.seconds < 3600 then s.seconds / 60 || ' min' || coalesce(' ' || nullif(s.seconds % 60, 0) || ' s', '')
        when s.seconds < 86400
            then s.seconds / 3600 || ' h' || coalesce(' ' || nullif(s.seconds % 3600 / 60, 0) || ' min', '')
        else s.seconds / 86400 || ' d' || coalesce(' ' || nullif(s.seconds % 86400 / 3600, 0) || ' h', '')
    end
    from (select greatest(0, round(extract(epoch from _duration.length)))::bigint as seconds) as s
$$;

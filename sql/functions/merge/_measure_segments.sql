-- Notes how many bytes of bodies each topic has in closed log segments, where some topics are past
-- retention and others are not, or a topic has a limit of size. A segment is measured once; a merge
-- forgets the numbers.
-- Locks: the rows of segment.
-- Cost: that of _sampled_sizes() for each new segment.
create function mqpg._measure_segments() returns void
language sql as $$
    update mqpg.segment u set sizes = n.sizes
    from (
        select s.segment_no, mqpg._sampled_sizes(s.segment_no) as sizes
        from mqpg.segment s
        where s.family = 'log' and s.closed_at is not null and s.body_dropped_at is null and s.sizes is null
            and exists (
                select from mqpg.topic t
                where s.closed_at + t.retention <= clock_timestamp() or t.max_bytes is not null)
    ) as n
    where u.family = 'log' and u.segment_no = n.segment_no and n.sizes is not null
$$;

-- About how many bytes of bodies each topic has in the log, as {topic_id: bytes}: what was noted of
-- closed segments, and a sample of those that are in use.
-- Locks: none. Cost: that of _sampled_sizes() for each segment in use.
create function mqpg._topic_sizes() returns jsonb
language sql as $$
    select jsonb_object_agg(k.topic_id, k.bytes)
    from (
        select e.key as topic_id, sum(e.value::bigint) as bytes
        from mqpg.segment s
        cross join lateral jsonb_each_text(
            case when s.closed_at is null then mqpg._sampled_sizes(s.segment_no) else s.sizes end) e
        where s.family = 'log' and s.opened_at is not null and s.body_dropped_at is null
        group by e.key
    ) as k
$$;

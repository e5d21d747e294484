-- Chooses four neighbouring closed segments that are worth being merged into one, or returns null.
-- By number: when a family has more closed segments than the setting `segments_most`, it chooses
-- the four that span the least time in relation to their age. As a consequence, old segments are
-- long and young ones short, the number never exceeds the setting by more than one or two whatever
-- the longest retention is, and a row is copied about log4(retention / segment_age) times in its
-- life.
-- By waste (family log): when at least half of the bytes of four neighbours belong to topics that
-- are past retention, and these are more than the setting `merge_waste`. As a consequence, a topic
-- with a long retention does not keep the bodies of the others. What a merge already had to leave
-- in (unread messages of a topic past retention) does not count.
-- Locks: none. Cost: one look at each segment's row.
create function mqpg._segments_to_merge(family text) returns bigint []
language plpgsql as $$
declare
    v_nos bigint [];
begin
    with alive as (
        select s.segment_no, case when s.leaving is null then s.closed_at end as closed_at, extract(epoch from coalesce(s.opened_at, s.made_at)) as begin_at,
            extract(epoch from s.closed_at) as end_at
        from mqpg.segment s
        where s.family = _segments_to_merge.family and s.dropped_at is null
    ),
    run as (
        select array_agg(a.segment_no) over w as nos, count(a.closed_at) over w as closed,
            min(a.begin_at) over w as begin_at, max(a.end_at) over w as end_at
        from alive a
        window w as (order by a.segment_no rows between current row and 3 following)
    )
    select r.nos into v_nos from run r
    where r.closed = 4 and (select count(a.closed_at) from alive a) > mqpg._setting('segments_most')::int
    order by (r.end_at - r.begin_at) / (extract(epoch from clock_timestamp()) - r.end_at + 1), r.nos[1] limit 1;
    if found or _segments_to_merge.family <> 'log' then
        return v_nos;
    end if;
    perform mqpg._measure_segments();
    with alive as (
        select s.segment_no, s.closed_at, coalesce(z.waste, 0) as waste, coalesce(z.total, 0) as total,
            s.closed_at is not null and s.leaving is null and (s.sizes is not null or s.body_dropped_at is not null) as known
        from mqpg.segment s
        left join lateral (
            select sum(e.value::bigint) as total, sum(e.value::bigint) filter (
                where e.key::int <> all(s.left_out)
                    and (t.topic_id is null or mqpg._expiry_base(s) + t.retention <= clock_timestamp())) as waste
            from jsonb_each_text(s.sizes) e
            left join mqpg.topic t on t.topic_id = e.key::int
        ) as z on s.closed_at is not null and s.body_dropped_at is null
        where s.family = 'log' and s.dropped_at is null
    ),
    run as (
        select array_agg(a.segment_no) over w as nos,
            count(*) filter (where a.known and a.waste * 2 >= a.total) over w as wasteful,
            sum(a.waste) over w as waste
        from alive a
        window w as (order by a.segment_no rows between current row and 3 following)
    )
    select r.nos into v_nos from run r
    where r.wasteful = 4 and r.waste > mqpg._setting('merge_waste')::bigint
    order by r.nos[1] limit 1;
    return v_nos;
end
$$;

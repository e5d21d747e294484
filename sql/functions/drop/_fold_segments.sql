-- Deletes old rows of segment whose tables were all dropped. When a family has more than 200 of
-- them, all but the newest 100 go, at most 1000 in a call. What is still asked about them stays:
--   log: which ids once existed (half_states() says `forgotten`, the audit leaves them out). One
--       row therefore takes over the bounds of those before it, as long as no id lies between them.
--   tick: when the first segment was closed after a log segment that still exists; see
--       _expiry_base().
-- Nothing of cursor, delayed and dedup is needed, apart from the newest row, which numbers the next
-- segment.
-- Locks: the rows; the caller holds the keeper's.
-- Cost: one look at each segment's row.
create function mqpg._fold_segments()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_newest constant int := 100;
    v_most constant int := 1000;
    v_old record;
    v_nos bigint [];
    v_into bigint;
    v_rows int;
begin
    for v_old in
        select s.family, (array_agg(s.segment_no order by s.segment_no desc))[v_newest + 1] as last_no
        from mqpg.segment s
        where s.dropped_at is not null
        group by s.family having count(*) > 2 * v_newest
        order by s.family
    loop
        if v_old.family = 'log' then
            -- the longest row of neighbours
            select r.nos[:v_most], coalesce(r.nos[v_most + 1], r.last_no) into v_nos, v_into
            from (
                select trim_array(array_agg(n.segment_no order by n.segment_no), 1) as nos, max(n.segment_no) as last_no
                from (
                    select o.segment_no, sum(o.gap) over (order by o.segment_no) as run
                    from (
                        select s.segment_no, (s.lower_bound is distinct from
                            lag(s.upper_bound) over (order by s.segment_no))::int as gap
                        from mqpg.segment s
                        where s.family = 'log' and s.dropped_at is not null and s.segment_no <= v_old.last_no
                    ) as o
                ) as n
                group by n.run
            ) as r
            order by cardinality(r.nos) desc limit 1;
            update mqpg.segment s set
                lower_bound = f.lower_bound,
                made_at = f.made_at,
                opened_at = f.opened_at,
                body_dropped_at = greatest(s.body_dropped_at, f.body_dropped_at),
                dropped_at = greatest(s.dropped_at, f.dropped_at)
            from (
                select (array_agg(k.lower_bound order by k.segment_no))[1] as lower_bound, min(k.made_at) as made_at,
                    min(k.opened_at) as opened_at, max(k.body_dropped_at) as body_dropped_at,
                    max(k.dropped_at) as dropped_at
                from mqpg.segment k where k.family = 'log' and k.segment_no = any(v_nos)
            ) as f
            where s.family = 'log' and s.segment_no = v_into and v_nos <> '{}';
        else
            v_nos := array(
                select s.segment_no from mqpg.segment s
                where s.family = v_old.family and s.dropped_at is not null and s.segment_no <= v_old.last_no
                    and (s.family <> 'tick' or s.closed_at <> all(array(
                        select mqpg._expiry_base(l) from mqpg.segment l
                        where l.family = 'log' and l.closed_at is not null and l.dropped_at is null)))
                order by s.segment_no limit v_most);
        end if;
        delete from mqpg.segment s where s.family = v_old.family and s.segment_no = any(v_nos);
        get diagnostics v_rows = row_count;
        if v_rows > 0 then
            return query select 'purged', 'segment', null::bigint, format('%s rows of dropped segments of %s', v_rows,
                v_old.family);
        end if;
    end loop;
end
$$;

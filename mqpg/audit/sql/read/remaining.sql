-- Segments that are marked as dropped although the rows of their first table are still there, or as merged
-- without a merge, and rows that are in none. A table that is still to be dropped is named in leaving.
select format('segment %s of %s is marked as dropped, but its rows are there', s.segment_no, s.family) as what
from mqpg_audit.segment as s
where s.dropped_at is not null and (
    (s.family = 'log' and s.leaving is distinct from 'commit_log' and exists (
        select from mqpg_audit.record_batch as l
        where not l.kept and l.batch_id >= s.lower_bound and l.batch_id < s.upper_bound
    ))
    or (s.family = 'tick' and s.leaving is distinct from 'consume_queue' and exists (
        select from mqpg_audit.queue_row as q
        where q.tick_id >= s.lower_bound and q.tick_id < s.upper_bound
    ))
    or (s.family = 'cursor' and s.leaving is distinct from 'cursor' and exists (
        select from mqpg_audit.position_change as c
        where c.slot >= s.lower_bound and c.slot < s.upper_bound
    ))
    or (s.family = 'delayed' and s.leaving is distinct from 'delayed' and exists (
        select from mqpg_audit.delayed as d
        where d.written_at >= coalesce(s.lower_time, '-infinity') and d.written_at < s.upper_time
    ))
)
union all
select format('segment %s of %s is marked as merged without some topics, and nothing was merged into it', s.segment_no, s.family)
from mqpg_audit.segment as s
where s.left_out <> '{}' and s.merged_at is null
union all
select format('segment %s of %s has bounds that are no range', s.segment_no, s.family)
from mqpg_audit.segment as s
where not s.bounds_fit
union all
select format('rows of family %s are in no segment', f.family)
from (
    select r.family, g.low, g.high
    from (
        select s.family, unnest('{(,)}'::int8multirange - range_agg(int8range(s.lower_bound, s.upper_bound))) as ids
        from mqpg_audit.segment as s
        where s.family <> 'delayed'
        group by 1
    ) as r
    cross join lateral (
        select coalesce(lower(r.ids), -1) as low, coalesce(upper(r.ids), 9223372036854775807) as high
    ) as g
) as f
where case f.family
    when 'log' then exists (
        select from mqpg_audit.record_batch as l where not l.kept and l.batch_id >= f.low and l.batch_id < f.high
    )
    when 'tick' then exists (select from mqpg_audit.tick as k where k.tick_id >= f.low and k.tick_id < f.high)
    when 'cursor' then exists (select from mqpg_audit.position_change as c where c.slot >= f.low and c.slot < f.high)
    else exists (select from mqpg_audit.dedup as d where d.slot >= f.low and d.slot < f.high)
end
union all
select format('a delayed row of %s is in no segment', d.written_at)
from mqpg_audit.delayed as d
where not exists (
    select from mqpg_audit.segment as s
    where s.family = 'delayed' and d.written_at >= coalesce(s.lower_time, '-infinity') and d.written_at < s.upper_time
)

-- Segments that are marked as dropped although the rows of their first table are still there, or as merged
-- without a merge. A table that is still to be dropped is named in leaving.
select s.family, s.segment_no, 'dropped, but its rows are there' as what
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
select s.family, s.segment_no, 'merged without some topics, and nothing was merged into it'
from mqpg_audit.segment as s
where s.left_out <> '{}' and s.merged_at is null

-- Segments that are marked as dropped although the rows of their first table are still there. A
-- table that is still to be dropped is named in leaving.
select s.family, s.segment_no
from mqpg.audit_segment as s
where s.body_dropped_at is not null and (
    (s.family = 'log' and s.leaving is distinct from 'commit_log' and exists (
        select from mqpg.audit_commit_log as l
        where l.batch_id >= s.lower_bound::bigint and l.batch_id < s.upper_bound::bigint
    ))
    or (s.family = 'tick' and s.leaving is distinct from 'consume_queue' and exists (
        select from mqpg.audit_consume_queue as q
        where q.tick_id >= s.lower_bound::bigint and q.tick_id < s.upper_bound::bigint
    ))
    or (s.family = 'cursor' and s.leaving is distinct from 'cursor' and exists (
        select from mqpg.audit_cursor as c
        where c.slot >= s.lower_bound::int and c.slot < s.upper_bound::int
    ))
    or (s.family = 'delayed' and s.leaving is distinct from 'delayed' and exists (
        select from mqpg.audit_delayed as d
        where d.written_at >= s.lower_bound::timestamptz and d.written_at < s.upper_bound::timestamptz
    ))
)

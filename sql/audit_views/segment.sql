-- Segments of messages and queues: ranges of ids with the time of writing, and what retention
-- dropped. They turn a time into a range of ids: what was written at a time is in a segment that
-- was opened before it and closed after it.
-- Cost: one row for each segment.
create view mqpg_audit.segment as
select case s.family when 'log' then 'messages' else 'queues' end as content, s.segment_no,
    case s.family when 'log' then 'batch_id' else 'tick_id' end as cut_column, s.lower_bound::bigint as lower_bound,
    s.upper_bound::bigint as upper_bound, s.opened_at, s.closed_at, s.body_dropped_at as dropped_at
from mqpg.segment as s
where s.family in ('log', 'tick');
comment on column mqpg_audit.segment.content is 'messages (message, decision) | queues (queue_entry, tick)';
comment on column mqpg_audit.segment.segment_no is 'Number of the segment among those of its content';
comment on column mqpg_audit.segment.cut_column is 'What the bounds are of: batch_id | tick_id';
comment on column mqpg_audit.segment.lower_bound is 'First id of the segment';
comment on column mqpg_audit.segment.upper_bound is 'Id after the last one of the segment';
comment on column mqpg_audit.segment.opened_at is 'When writing into it began; null: it was made ahead of time';
comment on column mqpg_audit.segment.closed_at is 'When writing into it ended; null: it has not';
comment on column mqpg_audit.segment.dropped_at is
    'From then on its messages or offsets are gone, but for those that message shows as kept; null: it is there';

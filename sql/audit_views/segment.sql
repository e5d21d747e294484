-- Segments: ranges of ids or times with the time of writing, and what retention dropped. They turn a
-- time into a range of ids: what was written at a time is in a segment that was opened before it and
-- closed after it.
-- Cost: one row for each segment.
create view mqpg_audit.segment as
select
    case s.family
        when 'log' then 'messages'
        when 'tick' then 'queues'
        when 'cursor' then 'positions'
        when 'dedup' then 'dedup ids'
        else s.family
    end as content,
    s.segment_no,
    case s.family
        when 'log' then 'batch_id' when 'tick' then 'tick_id' when 'delayed' then 'written_at' else 'slot'
    end as cut_column,
    case when s.family <> 'delayed' and s.bounds_fit then s.lower_bound::bigint end as lower_bound,
    case when s.family <> 'delayed' and s.bounds_fit then s.upper_bound::bigint end as upper_bound,
    s.opened_at, s.closed_at, s.body_dropped_at as dropped_at,
    case
        when s.family = 'delayed' and s.bounds_fit then nullif(s.lower_bound::timestamptz, '-infinity')
    end as lower_time,
    case when s.family = 'delayed' and s.bounds_fit then s.upper_bound::timestamptz end as upper_time,
    s.family, s.leaving, s.dropped_at as decisions_dropped_at, s.left_out, s.merged_at,
    s.tails_noted_at, s.bounds_fit
from (
    select g.*, case
        when g.family = 'delayed' then g.upper_bound ~ '^[0-9]{4}-' and g.lower_bound ~ '^(-infinity|[0-9]{4}-)'
        when g.lower_bound || g.upper_bound !~ '^[0-9]{1,30}$' then false
        else g.lower_bound::numeric < g.upper_bound::numeric and g.upper_bound::numeric < 1e15
    end as bounds_fit
    from mqpg.segment as g
) as s;
-- content: messages (message, decision) | queues (queue_entry, tick) | positions (position_change) | delayed |
--     dedup ids
-- segment_no: Number of the segment among those of its content
-- cut_column: What the bounds are of: batch_id | tick_id | slot | written_at
-- lower_bound: First id of the segment; null: delayed
-- upper_bound: Id after the last one of the segment; null: delayed
-- opened_at: When writing into it began; null: it was made ahead of time
-- closed_at: When writing into it ended; null: it has not
-- dropped_at: From then on its messages or offsets are gone, but for those that message shows as kept; null: it is
--     there
-- lower_time: delayed: first time of the segment; null: unlimited, or another content
-- upper_time: delayed: time after the last one of the segment; null: another content
-- family: The same as content, by the names of tables: log | tick | cursor | delayed | dedup
-- leaving: The table whose part is about to be dropped; null: none
-- decisions_dropped_at: From then on its last table, of messages that with the decisions, is gone, too; null: it is
--     there
-- left_out: Ids of topics whose messages were left out when segments were merged; 0: of dropped topics or segments
-- merged_at: When several segments were put together into this one; null: never
-- tails_noted_at: queues: when queue_tail got the ends of its queues; null: not yet, or another content
-- bounds_fit: false: its bounds are no range of its family, and are left out

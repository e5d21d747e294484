-- Least and greatest values of the columns by which large views are cut into parts. They are
-- lowerBound and upperBound of a JDBC reader.
-- Cost: two index lookups in each partition; no row of a large table is read besides.
create view mqpg_audit.bound as
select 'batch_id' as cut_column, 'message' as views, (select min(l.batch_id) from mqpg.commit_log as l) as lower_bound,
    (select max(l.batch_id) from mqpg.commit_log as l) as upper_bound
union all
select 'message_id' as cut_column, 'decision' as views, (select min(o.message_id) from mqpg.op_log as o) as lower_bound,
    (select max(o.message_id) from mqpg.op_log as o) as upper_bound
union all
select 'tick_id' as cut_column, 'tick, queue_entry' as views,
    (select min(t.tick_id) from mqpg.tick as t) as lower_bound,
    (select max(t.tick_id) from mqpg.tick as t) as upper_bound
union all
select 'slot' as cut_column, 'position_change' as views, min(s.segment_no) as lower_bound,
    max(s.segment_no) as upper_bound
from mqpg.segment as s
where s.family = 'cursor' and s.dropped_at is null;
-- cut_column: The column to cut by: partitionColumn of Spark
-- views: The views that have this column as their cut column
-- lower_bound: Least value that is stored; null: there is none
-- upper_bound: Greatest value that is stored; null: there is none

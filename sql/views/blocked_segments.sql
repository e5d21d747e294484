-- What open transactions hold up, the oldest first, and the sessions that it waits for. These are
-- tables of segments that nobody needs any more and that are not dropped yet, and merges of closed
-- segments. The keeper's log reports what is here for an hour.
-- Cost: reads the server's list of locks once or twice.
create view mqpg.blocked_segments as
select v.family, v.segment_no, v.table_name, v.state, v.since, v.age, v.blocked_by
from mqpg._blocked_segments() as v;
-- table_name: The partition, in the schema mqpg; of a merge the first of its tables
-- state: attached | detaching (waits for transactions that may know it) | detached (a table of its own) | merging
-- since: When it was released, or when its release or merge was first held up by an open transaction
-- blocked_by: Process ids of the sessions that use it or its parent now; see pg_stat_activity

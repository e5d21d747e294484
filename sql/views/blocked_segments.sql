-- Tables of segments that nobody needs any more and that are not dropped yet, the oldest first, and
-- the sessions that they wait for. A table that is here for an hour is reported in the keeper's
-- log.
-- Cost: reads the server's list of locks once.
create view mqpg.blocked_segments as
select
    l.family,
    l.segment_no,
    l.partition as table_name,
    l.state,
    l.since,
    clock_timestamp() - l.since as age,
    l.blocked_by
from mqpg._leaving() as l
order by l.since;
comment on view mqpg.blocked_segments is 'Tables that nobody needs any more and that are not dropped yet';
comment on column mqpg.blocked_segments.table_name is 'The partition, in the schema mqpg';
comment on column mqpg.blocked_segments.state is
    'attached | detaching (waits for transactions that may know it) | detached (a table of its own)';
comment on column mqpg.blocked_segments.since is
    'When it was released, or when its release was first held up by an open transaction';
comment on column mqpg.blocked_segments.blocked_by is
    'Process ids of the sessions that use it or its parent; see pg_stat_activity';

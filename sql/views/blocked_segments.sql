-- What open transactions hold up, the oldest first, and the sessions that it waits for: tables of
-- segments that nobody needs any more and that are not dropped yet, and merges of closed segments.
-- Anything that is here for an hour is reported in the keeper's log.
-- Cost: reads the server's list of locks once or twice.
create view mqpg.blocked_segments as
select
    b.family,
    b.segment_no,
    b.table_name,
    b.state,
    b.since,
    clock_timestamp() - b.since as age,
    b.blocked_by
from (
    select
        l.family,
        l.segment_no,
        l.partition as table_name,
        l.state,
        l.since,
        l.blocked_by
    from mqpg._leaving() as l
    union all
    select
        m.family,
        m.segment_no,
        m.table_name,
        'merging' as state,
        m.since,
        m.blocked_by
    from mqpg._blocked_merges() as m
) as b
order by b.since;
comment on view mqpg.blocked_segments is
    'Drops of tables that nobody needs any more, and merges, that open transactions hold up';
comment on column mqpg.blocked_segments.table_name is
    'The partition, in the schema mqpg; of a merge the first of its tables';
comment on column mqpg.blocked_segments.state is
    'attached | detaching (waits for transactions that may know it) | detached (a table of its own) | merging';
comment on column mqpg.blocked_segments.since is
    'When it was released, or when its release or merge was first held up by an open transaction';
comment on column mqpg.blocked_segments.blocked_by is
    'Process ids of the sessions that use it or its parent now; see pg_stat_activity';

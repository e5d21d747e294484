-- Sends that the snapshot `upto` sees and that of the last tick did not: of transactions that had not
-- begun then (xids from its xmax `since`) and of those that were running (`late`). Batch ids up to
-- floor_id were all seen, and none that is visible is above `newest`. The executor opens the
-- partitions between them, and none for a part of the query without news. The planner puts the query
-- in place of the call, if the arguments are variables.
-- Locks: none. Cost: an index scan of what is new.
create function mqpg._new_sends(floor_id bigint, newest bigint, since xid8, late xid8 [], upto pg_snapshot)
    returns table (topic_id int, queue_id smallint, batch_id bigint, n smallint)
language sql stable as $$
    select l.topic_id, l.queue_id, l.batch_id, l.n
    from mqpg.commit_log l
    where l.kind = 'n' and l.batch_id > _new_sends.floor_id and l.batch_id <= _new_sends.newest
        and l.xid >= _new_sends.since and l.xid < pg_snapshot_xmax(_new_sends.upto)
        and pg_visible_in_snapshot(l.xid, _new_sends.upto)
    union all
    select l.topic_id, l.queue_id, l.batch_id, l.n
    from mqpg.commit_log l
    where l.kind = 'n' and l.batch_id > _new_sends.floor_id
        and l.batch_id <= case when _new_sends.late <> '{}' then _new_sends.newest else -1 end
        and l.xid = any(_new_sends.late) and pg_visible_in_snapshot(l.xid, _new_sends.upto)
$$;

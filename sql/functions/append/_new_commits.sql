-- Commits without delay that are new (see _new_sends()), about messages from the id `decidable` on.
-- Locks: none. Cost: an index scan of what is new.
create function mqpg._new_commits(decidable bigint, newest bigint, since xid8, late xid8 [], upto pg_snapshot)
    returns table (topic_id int, queue_id smallint, order_no bigint, message_id bigint, deliver_id bigint)
language sql stable as $$
    select o.topic_id, o.queue_id, o.order_no, o.message_id, o.deliver_id
    from mqpg.op_log o
    where o.op = 'c' and o.visible_at is null
        and o.message_id >= _new_commits.decidable and o.message_id <= _new_commits.newest * 1024 + 1023
        and o.xid >= _new_commits.since and o.xid < pg_snapshot_xmax(_new_commits.upto)
        and pg_visible_in_snapshot(o.xid, _new_commits.upto)
    union all
    select o.topic_id, o.queue_id, o.order_no, o.message_id, o.deliver_id
    from mqpg.op_log o
    where o.op = 'c' and o.visible_at is null and o.message_id >= _new_commits.decidable
        and o.message_id <= case when _new_commits.late <> '{}' then _new_commits.newest * 1024 + 1023 else -1 end
        and o.xid = any(_new_commits.late) and pg_visible_in_snapshot(o.xid, _new_commits.upto)
$$;

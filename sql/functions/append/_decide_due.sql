-- Writes the decision `due` for each delayed message that append() is about to deliver, unless it
-- was recalled; the primary key decides between the two.
-- A message whose recall is still open is postponed by a second, so that no open transaction blocks
-- the appender. Retries cannot be recalled and are not touched here. Open recalls are looked up in
-- pg_locks, because trying a lock for each due message could exhaust the lock table. A recall that
-- begins between the lookup and the insert makes the insert wait for it; after the time-out the
-- function looks again. A transaction with many recalls has one lock for most of them; then the
-- messages are decided in pieces (_decide_pieces()).
-- Locks: 1836150839, 0, tried only; the decisions' keys, each waited for at most 200 ms.
-- Cost: one insert for each due message; one index lookup when nothing is due; pg_locks while a
-- recall is open.
create function mqpg._decide_due(last_tick mqpg.tick, upto pg_snapshot, due_until timestamptz) returns void
language plpgsql
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off
set lock_timeout = '200ms' as $$
declare
    v_from xid8 := _decide_due.last_tick.snapshot_xmax;
    v_late xid8 [] := array(select pg_snapshot_xip(_decide_due.last_tick.snapshot));
    v_due_from timestamptz := _decide_due.last_tick.due_until;
    v_now timestamptz := clock_timestamp();
    v_until timestamptz := greatest(v_now, _decide_due.due_until);
    v_ids bigint [];
    v_bodies bigint [];
    v_topics int [];
    v_queues smallint [];
    v_recalling boolean;
    v_busy int [] := '{}';  -- hashes of the messages with an open recall
    v_order bigint;
begin
    select array_agg(d.first_id + i order by d.first_id + i), array_agg(d.deliver_id order by d.first_id + i),
        array_agg(d.topic_id order by d.first_id + i), array_agg(d.queue_id order by d.first_id + i)
    into v_ids, v_bodies, v_topics, v_queues
    from mqpg._newly_due(v_due_from, _decide_due.due_until, v_from, v_late, _decide_due.upto) d
    cross join lateral generate_series(0, d.n - 1) as i
    where d.subscription_id = 0;
    if v_ids is null then
        return;
    end if;
    v_order := nextval('mqpg.batch_id');
    v_recalling := not pg_try_advisory_xact_lock(1836150839, 0);
    loop
        if v_recalling then
            v_busy := array(
                select case when l.objid::bigint > 2147483647 then l.objid::bigint - 4294967296
                    else l.objid::bigint end::int
                from pg_locks l
                where l.locktype = 'advisory' and l.classid::bigint = 1836150840 and l.objsubid = 2
                    and l.database = (select d.oid from pg_database d where d.datname = current_database()));
        end if;
        begin
            with message as (
                select u.*, hashint8(u.id) <> all(v_busy) as free
                from unnest(v_ids, v_bodies, v_topics, v_queues) as u(id, body, topic_id, queue_id)
            ),
            put_off as (
                insert into mqpg.delayed (
                    visible_at, xid, first_id, deliver_id, n, written_at, topic_id, queue_id)
                select v_until + interval '1 second', pg_current_xact_id(), m.id, m.body, 1, b.written_at, m.topic_id,
                    m.queue_id
                from message m
                cross join mqpg._broker_time(v_now) b
                where not m.free
            )
            insert into mqpg.op_log (message_id, stage, order_no, xid, op, at, topic_id, queue_id, decided_by)
            select m.id, 1, v_order, pg_current_xact_id(), 'd', v_now, m.topic_id, m.queue_id, 'appender'
            from message m where m.free
            order by m.id
            on conflict do nothing;
            return;
        exception when lock_not_available then
            if v_recalling and exists (
                select from pg_locks l
                where l.locktype = 'advisory' and l.classid::bigint = 1836150839 and l.objid::bigint = 1
                    and l.database = (select d.oid from pg_database d where d.datname = current_database()))
            then
                perform mqpg._decide_pieces(v_ids, v_bodies, v_topics, v_queues, v_order, v_now, v_until);
                return;
            end if;
            v_recalling := true;
        end;
    end loop;
end
$$;

-- One pass of the appender: gives every message that became visible since the pass before its place in a
-- consume queue, and returns how many. With the snapshot S0 of the last tick and the current S1 these are
-- the normal sends and the undelayed commit decisions whose xid is visible in S1 and not in S0, ordered by
-- batch id / order number, and what is due: so nothing is skipped however late it commits, a long
-- transaction delays only its own messages, and offsets are dense. max_messages is a target: one
-- transaction is not split.
-- Locks: 1836150834, 0 until the end of its transaction, so passes are one after the other.
-- Cost: an index scan of what is new; an idle pass reads no table rows to speak of and writes nothing.
-- Errors: MQ001, MQ015 (caller has an xid or is not READ COMMITTED), MQ016 (restored into another cluster).
create function mqpg.append(max_messages int default null) returns bigint
-- jit off: estimates of a generic plan over a large log would have every pass compiled
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_tick mqpg.tick;
    v_batch_seq bigint;
    v_s1 pg_snapshot;
    v_upto pg_snapshot;     -- S1, or its cut where there is a backlog
    v_due_until timestamptz;
    v_messages bigint;
    v_topic_ids int [];
    v_was_due boolean;      -- something was due, be it that all of it was recalled or put off
begin
    if append.max_messages is not null then
        perform mqpg._require_range('max_messages', append.max_messages, 1, 2147483647);
    end if;
    perform mqpg._require_own_transaction('append');
    -- A pass redone after a crash may order messages otherwise; a consumer that keeps its offset elsewhere
    -- would see one twice and another never.
    perform mqpg._force_sync();
    perform pg_advisory_xact_lock(1836150834, 0);
    select t.* into strict v_tick from mqpg.tick t order by t.tick_id desc limit 1;
    -- The sequence before this pass's own xid: whoever drew a batch id so far has a smaller xid.
    select case when b.is_called then b.last_value else 0 end into v_batch_seq from mqpg.batch_id b;
    v_s1 := pg_current_snapshot();
    perform mqpg._require_own_cluster(v_tick.snapshot, v_s1);
    perform mqpg._enqueue_halves_sometimes(v_s1, v_batch_seq);
    -- so that a broker whose keeper is away, or which has only this pass in its cron, does not run out of segments
    if random() < 0.004 then
        perform mqpg._make_segments(1);
    end if;
    v_upto := v_s1;
    v_due_until := greatest(v_tick.due_until, clock_timestamp());
    if append.max_messages is not null then
        v_upto := mqpg._cut(v_tick, v_s1, append.max_messages);
        v_due_until := mqpg._cut_due(v_tick.due_until, v_due_until, append.max_messages);
    end if;
    if not mqpg._anything_new(v_tick, v_upto, v_due_until) then
        return 0;
    end if;
    select a.messages, a.topic_ids, a.was_due into v_messages, v_topic_ids, v_was_due
    from mqpg._append_runs(v_tick, v_upto, v_due_until) a;
    if v_messages > 0 or v_was_due then
        insert into mqpg.tick (
            tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, due_until, messages, topic_ids, at)
        values (
            v_tick.tick_id + 1, pg_current_xact_id(), v_upto, pg_snapshot_xmax(v_upto), v_batch_seq,
            greatest(v_tick.floor_id, (
                select k.batch_seq from mqpg.tick k
                where k.xid <= pg_snapshot_xmin(v_upto)
                order by k.xid desc, k.tick_id desc limit 1)),
            v_due_until, v_messages, v_topic_ids, clock_timestamp());
    end if;
    if v_messages > 0 then
        perform pg_notify('mqpg', (v_tick.tick_id + 1)::text);
    end if;
    return v_messages;
end
$$;
comment on function mqpg.append(int) is 'One pass of the appender; returns the number of messages appended';

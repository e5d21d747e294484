-- Gives every message that became visible since the last call its place in a consume queue. With
-- the snapshot S0 of the last tick and the current S1, these are the normal sends and the commits
-- without delay whose xid is visible in S1 and not in S0, ordered by batch id and order number, and
-- the delayed messages and retries that are due. As a consequence, no message is skipped however late it
-- commits, a long transaction delays only its own messages, and offsets are dense. A worker calls
-- it continuously; pg_cron or an app may call it too.
-- Arguments:
--   max_messages: stop after about so many; null (default): no limit. It is a target, because the
--       messages of one transaction are never split.
-- Returns: how many messages were appended.
-- Locks: append_lock, EXCLUSIVE, until the end of its transaction, so that calls run one after the
-- other.
-- Cost: an index scan of what is new; when nothing is new it reads almost no table rows and writes
-- nothing.
-- Errors: MQ001 (argument), MQ015 (must be called in a READ COMMITTED transaction that has written
-- nothing), MQ016 (restored into another cluster, a copy, promoted or recovered: see
-- adopt()).
create function mqpg.append(max_messages int default null) returns bigint
-- jit off, because the estimates of a generic plan over a large log would compile the statements in
-- every call
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC'
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_checked boolean := mqpg._require_privilege('worker');
    v_tick mqpg.tick;
    v_batch_seq bigint;
    v_recent bigint;        -- older ticks are not looked at
    v_s1 pg_snapshot;
    v_upto pg_snapshot;     -- S1, or its cut where there is a backlog
    v_due_until timestamptz;
    v_messages bigint;
    v_written record;
    v_seen bigint;          -- batch ids up to this one are appended
    v_mark bigint;
    v_new record;
    v_cut boolean;          -- null: no limit
begin
    if append.max_messages < 1 then
        perform mqpg._require_range('max_messages', append.max_messages, 1, 2147483647);
    end if;
    perform mqpg._require_own_transaction('append');
    -- Flush the commit: an append() repeated after a crash may order messages differently, and a
    -- consumer that stores its offset in another database would see one message twice and another
    -- never.
    perform mqpg._force_sync();
    -- The messages of a transaction are never split, so a limit that ends this call would end the next
    -- one, too. PostgreSQL has it from version 17 on.
    if current_setting('transaction_timeout', true) <> '0' then
        perform set_config('transaction_timeout', '0', true);
    end if;
    lock table mqpg.append_lock in exclusive mode;
    -- The mark is too great after a pass that was rolled back. A keep() of an earlier release did not move it.
    v_mark := pg_sequence_last_value('mqpg.tick_mark');
    select t.* into v_tick from mqpg.tick t where t.tick_id >= v_mark order by t.tick_id desc limit 1;
    if not found then
        v_recent := mqpg._recent_tick();
        select t.* into v_tick from mqpg.tick t where t.tick_id >= v_recent order by t.tick_id desc limit 1;
        if not found then
            perform mqpg._require_rows();
            select t.* into strict v_tick from mqpg.tick t order by t.tick_id desc limit 1;
        end if;
    end if;
    -- Read the sequence before this transaction gets an xid, so that every writer of a lower batch
    -- id has a lower xid.
    v_batch_seq := coalesce(pg_sequence_last_value('mqpg.batch_id'), 0);
    v_s1 := pg_current_snapshot();
    perform mqpg._require_own_database(v_tick.snapshot);
    perform mqpg._enqueue_halves_sometimes(v_s1, v_batch_seq, v_tick);
    -- Now and then make a segment, so that a broker without a running keeper does not run out of
    -- them. If that fails, messages are delivered all the same, and the keeper says why.
    if random() < 0.004 then
        begin
            perform mqpg._make_segments(1);
        exception when others then
            raise warning 'append() made no segment: %', sqlerrm;
        end;
    end if;
    v_due_until := mqpg._move_broker_time(v_tick.due_until, v_tick.snapshot_xmax);
    v_new := mqpg._what_is_new(v_tick, v_s1, v_due_until);
    if not (v_new.sends or v_new.decisions or v_new.due) then
        return 0;
    end if;
    v_upto := v_s1;
    -- A batch id stands for 1024 sends at most.
    v_cut := (v_new.sends or v_new.decisions) and append.max_messages / 1024 <= v_batch_seq - v_tick.floor_id;
    if v_cut then
        v_upto := mqpg._snapshot_of_backlog_part(v_tick, v_s1, append.max_messages);
    end if;
    if v_new.sends <> v_new.decisions and not v_new.due then
        v_written := mqpg._write_offset_of_one(v_tick, v_upto, v_new.decisions);
        v_messages := v_written.messages;
    end if;
    if v_messages is null then
        -- Decisions may be about earlier batches.
        if v_new.decisions and not v_cut then
            v_upto := mqpg._snapshot_of_backlog_part(v_tick, v_s1, append.max_messages);
        end if;
        if v_new.due and append.max_messages is not null then
            v_due_until := mqpg._due_until_of_backlog_part(v_tick.due_until, v_due_until, append.max_messages);
        end if;
        if v_new.decisions or v_new.due then
            v_written := mqpg._write_offsets(
                v_tick, v_upto, v_due_until, v_new.sends, v_new.decisions, v_new.due);
        else
            v_written := mqpg._write_offsets_of_sends(v_tick, v_upto);
        end if;
        v_messages := v_written.messages;
    end if;
    -- What was due may all have been recalled, postponed or purged. Without a tick the next append()
    -- would read it again.
    if v_messages > 0 or v_new.due then
        -- By the newest tick whose xid and all before it are finished.
        v_seen := v_tick.batch_seq;
        if v_tick.xid > pg_snapshot_xmin(v_upto) then
            v_recent := mqpg._recent_tick();
            v_seen := (
                select k.batch_seq from mqpg.tick k
                where k.tick_id >= v_recent and k.xid <= pg_snapshot_xmin(v_upto)
                order by k.xid desc, k.tick_id desc limit 1);
        end if;
        insert into mqpg.tick (
            tick_id, xid, snapshot, snapshot_xmax, batch_seq, floor_id, due_until, messages, topic_ids, at)
        values (
            v_tick.tick_id + 1, pg_current_xact_id(), v_upto, pg_snapshot_xmax(v_upto), v_batch_seq,
            greatest(v_tick.floor_id, v_seen),
            v_due_until, v_messages, v_written.topic_ids, clock_timestamp());
        v_mark := setval('mqpg.tick_mark', v_tick.tick_id + 1);
        v_mark := setval('mqpg.due_mark', greatest(1, (date_part('epoch', v_due_until) * 1000000)::bigint));
    end if;
    if v_messages > 0 then
        perform mqpg._notify('mqpg', (v_tick.tick_id + 1)::text);
    end if;
    return v_messages;
end
$$;

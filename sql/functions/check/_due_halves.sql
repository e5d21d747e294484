-- Hands out overdue half messages of one group, each for the duration of the lease. Each hand-out
-- is logged and counts as one check, unless it is answered with wait in time. Half messages that
-- were decided meanwhile, or are gone, are removed from the check queue. To those that were
-- checked max_checks times the group's policy applies. For place and unmarked see _claim_entries().
-- Locks: the entries' rows; entries that others have locked are skipped.
-- Cost: a few lookups, one update and one insert for each half message.
create function mqpg._due_halves(
    producer_group text, max_messages int, lease interval, place text default null, unmarked boolean default true
)
returns table (
    handle text, topic text, key text, headers jsonb, payload json, attempt int, ledger text, born_at timestamptz
)
language plpgsql as $$
declare
    v_group mqpg.producer_group := mqpg._producer_group(_due_halves.producer_group);
    v_now timestamptz;
    v_entry record;
    v_half record;
    v_checks int;
    v_given int := 0;
    v_claimed boolean;
begin
    perform mqpg._require_range('max_messages', _due_halves.max_messages, 1, 10000);
    perform mqpg._require_interval('lease', _due_halves.lease, '10 milliseconds');
    perform mqpg._enqueue_halves_now('due_checks');
    perform mqpg._force_sync();
    v_now := clock_timestamp();    -- the same for all rounds, so that no entry is taken twice
    loop
        v_claimed := false;
        for v_entry in
            select e.msg_id, e.handle
            from mqpg._claim_entries(
                v_group.name, _due_halves.max_messages - v_given, _due_halves.lease, v_now, _due_halves.place,
                _due_halves.unmarked) e
        loop
            v_claimed := true;
            select h.* into v_half from mqpg._half_by_handle(v_entry.handle) h;
            continue when mqpg._needs_no_check(v_group, v_half.message_id, v_entry.msg_id);
            select c.checks into v_checks from mqpg._check_count(v_half.message_id) c;
            if v_checks >= v_group.max_checks then
                perform mqpg._end_exhausted(v_entry.handle, v_half.message_id, v_group, v_entry.msg_id, v_checks);
                continue;
            end if;
            perform mqpg._log_check(v_half.message_id, 'asked', v_group.checker);
            v_given := v_given + 1;
            handle := v_entry.handle;
            topic := v_half.topic;
            key := v_half.key;
            headers := v_half.headers;
            payload := v_half.payload;
            attempt := v_checks + 1;
            ledger := v_half.ledger;
            born_at := v_half.born_at;
            return next;
        end loop;
        exit when not v_claimed or v_given >= _due_halves.max_messages;
    end loop;
end
$$;

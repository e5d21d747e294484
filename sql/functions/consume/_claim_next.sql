-- Chooses a queue for receive(), locks it, and claims its next messages. Returns no claim if there
-- is nothing to deliver.
-- The queue that waited longest comes first, and the one of `acked` last. A queue that another
-- consumer has locked is skipped. If there is no other one, this function looks again when keep()
-- has copied its cursors, and in mode shared it waits for the first locked queue.
-- If one run of message ids has all that is claimed, and its row was looked up here, `run_id` is the
-- id at the first offset, `run_body` where its body lies, and `run_attempt` as in the row. Otherwise
-- they are null, and _runs() says more.
-- Arguments: those of receive(), and
--   subscription: in mode broadcast that of the member.
--   acked: the cursor without the claim that receive() acknowledges, not written yet; null: none. It
--       is written here in any case: in the version of the new claim if that is one of fresh messages of
--       the same queue, else in one of its own.
-- Locks: those of receive().
-- Cost: a look at each queue's cursor, and at the ends of the queues that waited longer than the
-- chosen one (1000 empty queues: 4 ms); and see _claim().
-- Errors: 40001.
create function mqpg._claim_next(
    subscription mqpg.subscription, topic mqpg.topic, only_queue int, max_messages int, lease interval, consumer text,
    acked mqpg.cursor, out queue_id int, out claim mqpg.claim,
    out run_id bigint, out run_body bigint, out run_attempt int
)
language plpgsql as $$
declare
    v_id int := _claim_next.subscription.subscription_id;
    v_owner text := case _claim_next.subscription.mode when 'pinned' then _claim_next.consumer end;
    -- Fresh messages can be claimed as they are.
    v_plain boolean := _claim_next.subscription.max_attempts > 1 and _claim_next.subscription.filter is null
        and _claim_next.subscription.tags is null and _claim_next.topic.message_ttl is null;
    v_most int := case when v_plain and v_owner is null then _claim_next.max_messages else 2147483647 end;
    v_until timestamptz;    -- when the search through messages that are not chosen, or expired, ends
    v_awaited int;          -- mode shared: the queue that this call waits for
    v_from_tick bigint;
    v_to_tick bigint;
    -- A cursor, because a loop over a query would read the ends of ten queues at once.
    c_waiting cursor for
        select q.* from mqpg._queues_with_messages(
            _claim_next.topic.topic_id, v_id, _claim_next.consumer,
            coalesce(v_awaited, _claim_next.only_queue, -1),
            coalesce(v_awaited, _claim_next.only_queue, _claim_next.topic.queues - 1), v_from_tick, v_to_tick,
            v_most, _claim_next.acked.queue_id) as q;
    v_nth int;              -- the claim that is taken over, as in _claim(); then the run
    v_fresh boolean;        -- the claim is one of fresh messages, as they are
    v_locked int;           -- the first queue that another call had locked
    v_shut boolean;         -- the lock of all queues was not free
    v_waits int := 0;
    v_passed int := 0;      -- queues that were searched and gave nothing
    v_version bigint;
    v_written int;          -- how many cursor versions
begin
    if _claim_next.subscription.filter is not null or _claim_next.subscription.tags is not null
        or _claim_next.topic.message_ttl is not null then
        v_until := clock_timestamp() + mqpg._setting('filter_time')::interval;
    end if;
    loop
        -- 1. The queues with messages, the one that waited longest first.
        -- The ends of queues are in these ticks, or noted. The executor does not open the partitions of
        -- later ones. An append() that began before an upgrade sets no mark, hence the margin.
        select s.lower_bound::bigint, pg_sequence_last_value('mqpg.tick_mark') + 1048576 into v_from_tick, v_to_tick
        from mqpg.segment s
        where s.family = 'tick' and s.tails_noted_at is null
        order by s.segment_no limit 1;
        -- Look before taking the lock, because it is held until the end of the transaction.
        for v_waiting in c_waiting loop
            v_fresh := v_plain;
            if v_waiting.claims <> '{}' then
                if v_waiting.queue_id = _claim_next.acked.queue_id then
                    v_waiting.claims := _claim_next.acked.claims;
                elsif v_waiting.at > clock_timestamp() + interval '1 minute' then
                    -- The server's clock was ahead, and no append() noticed it (_note_clock_step()).
                    if mqpg._lock_free_cursor(v_id, v_waiting.queue_id)
                        and pg_try_advisory_xact_lock_shared(1836150843, v_id) then
                        perform mqpg._shorten_claims(v_id, v_waiting.queue_id);
                    end if;
                    continue;
                end if;
                if v_waiting.queue_id = -1 and _claim_next.subscription.mode = 'pinned' then
                    continue when v_waiting.claimed >= v_waiting.tail and not exists (
                        select from unnest(v_waiting.claims) c
                        where mqpg._is_claim_for(v_id, c, _claim_next.consumer));
                    v_nth := 1;
                else
                    v_nth := mqpg._claim_to_take_over(_claim_next.subscription, v_waiting.claims);
                end if;
                continue when v_nth is null or (v_nth = 0 and v_waiting.claimed >= v_waiting.tail);
                v_fresh := v_plain and v_nth = 0
                    and (v_waiting.claims = '{}' or _claim_next.subscription.on_failure <> 'block_key');
            end if;
            -- 2. Its lock.
            if not mqpg._lock_free_cursor(v_id, v_waiting.queue_id) then
                if v_awaited is null then
                    v_locked := coalesce(v_locked, v_waiting.queue_id);
                    continue;
                end if;
                exit when not mqpg._try_lock_cursor(v_id, v_waiting.queue_id);
            end if;
            -- A purge or a seek of all queues has or waits for this one exclusively.
            v_shut := not pg_try_advisory_xact_lock_shared(1836150843, v_id);
            exit when v_shut;
            -- 3. The claim: fresh messages of a plain queue here, everything else by _claim().
            if v_fresh and v_waiting.queue_id <> -1 and v_waiting.action <> mqpg._action('closed') then
                claim := row(
                    mqpg._epoch(v_waiting.version + 1), v_waiting.claimed,
                    least(v_waiting.claimed + _claim_next.max_messages, v_waiting.tail), 1,
                    clock_timestamp() + _claim_next.lease, _claim_next.consumer, null, null, null)::mqpg.claim;
                if _claim_next.acked.queue_id <> v_waiting.queue_id and _claim_next.acked.version is not null then
                    -- Both queues by one statement.
                    insert into mqpg.cursor (
                        subscription_id, queue_id, slot, version, committed, claimed, at, action, epoch, owner, claims)
                    values (
                        v_id, _claim_next.acked.queue_id, _claim_next.acked.slot, _claim_next.acked.version + 1,
                        coalesce(_claim_next.acked.claims[1].from_offset, _claim_next.acked.claimed),
                        _claim_next.acked.claimed, clock_timestamp(), mqpg._action('ack'), _claim_next.acked.epoch,
                        _claim_next.acked.owner, _claim_next.acked.claims
                    ), (
                        v_id, v_waiting.queue_id, v_waiting.slot, v_waiting.version + 1,
                        coalesce(v_waiting.claims[1].from_offset, claim.from_offset), claim.to_offset,
                        clock_timestamp(), mqpg._action('receive'), claim.epoch, v_owner,
                        case cardinality(v_waiting.claims) when 0 then array[claim] else v_waiting.claims || claim end)
                    on conflict do nothing;
                    get diagnostics v_written = row_count;
                    -- One: the look at the chosen queue was stale. That at the other one cannot be, because it came
                    -- after the lock; a snapshot from before raises 40001.
                    if v_written < 2 then
                        claim := null;
                        _claim_next.acked.version := null;
                    end if;
                else
                    insert into mqpg.cursor (
                        subscription_id, queue_id, slot, version, committed, claimed, at, action, epoch, owner, claims)
                    values (
                        v_id, v_waiting.queue_id, v_waiting.slot, v_waiting.version + 1,
                        coalesce(v_waiting.claims[1].from_offset, claim.from_offset), claim.to_offset,
                        clock_timestamp(),
                        case
                            when _claim_next.acked.version is null then mqpg._action('receive')
                            else mqpg._action('ack_and_receive')
                        end,
                        claim.epoch, v_owner,
                        case cardinality(v_waiting.claims) when 0 then array[claim] else v_waiting.claims || claim end)
                    on conflict do nothing;
                    if not found then
                        claim := null;
                    end if;
                end if;
                if claim.epoch is not null
                    and mqpg._has_newer_slot(least(v_waiting.slot, _claim_next.acked.slot)) then
                    perform mqpg._copy_own_cursor(v_id, v_waiting.queue_id, v_waiting.slot);
                    if _claim_next.acked.queue_id <> v_waiting.queue_id then
                        perform mqpg._copy_own_cursor(v_id, _claim_next.acked.queue_id, _claim_next.acked.slot);
                    end if;
                end if;
            end if;
            if claim.epoch is null then
                -- Not in the version of that claim, which must say what became of the claim before.
                if _claim_next.acked.version is not null then
                    v_version := mqpg._write_ack(_claim_next.acked);
                    _claim_next.acked.version := null;
                end if;
                claim := mqpg._claim(
                    _claim_next.subscription, _claim_next.topic, v_waiting.queue_id, v_waiting.tail,
                    _claim_next.max_messages, _claim_next.lease, _claim_next.consumer, v_until);
            end if;
            -- 4. Its only run, if it has one.
            if claim.epoch is not null then
                queue_id := v_waiting.queue_id;
                if v_waiting.base_offset <= claim.from_offset and claim.to_offset <= v_waiting.tail then
                    v_nth := width_bucket((claim.from_offset - v_waiting.base_offset)::int, v_waiting.starts);
                    if (v_waiting.starts[v_nth + 1] < claim.to_offset - v_waiting.base_offset) is not true then
                        run_id := v_waiting.first_ids[v_nth]
                            + claim.from_offset - v_waiting.base_offset - v_waiting.starts[v_nth];
                        run_body := run_id;
                        if v_waiting.deliver_ids is not null then
                            run_body := run_id + coalesce(
                                v_waiting.deliver_ids[v_nth] - v_waiting.first_ids[v_nth], 0);
                        end if;
                        if v_waiting.attempts is not null then
                            run_attempt := v_waiting.attempts[v_nth];
                        end if;
                    end if;
                end if;
                return;
            end if;
            v_passed := v_passed + 1;
            -- It also ends after 250 queues, because the lock table of the server is small. With block_key a
            -- queue may stay as it was, and the ones behind it would never be looked at.
            if clock_timestamp() >= v_until or (
                v_until is not null and v_passed = 250 and _claim_next.subscription.on_failure <> 'block_key') then
                v_locked := null;
                exit;
            end if;
        end loop;
        -- 5. No queue gave anything. If others had locked some, look again.
        exit when v_locked is null or v_awaited is not null;
        -- keep() must not hide messages, so this call looks again when keep() is ready.
        if v_waits < 5 and mqpg._await_cursor_copy() then
            v_waits := v_waits + 1;
            v_locked := null;
            continue;
        end if;
        exit when _claim_next.subscription.mode <> 'shared';
        v_awaited := v_locked;
    end loop;
    -- 6. Nothing to deliver.
    if _claim_next.acked.version is not null then
        v_version := mqpg._write_ack(_claim_next.acked);
    end if;
    -- A snapshot from before the ends were noted shows neither the rows nor the note (see _tail()).
    -- READ COMMITTED callers have a newer one than the list of partitions that they read.
    if current_setting('transaction_isolation') <> 'read committed' then
        if not mqpg._is_attached('consume_queue', s.segment_no)
            from mqpg.segment s where s.family = 'tick' and s.tails_noted_at is null order by s.segment_no limit 1
        then
            raise exception using errcode = '40001',
                message = 'a segment was dropped while the ends of queues were read: try the transaction again';
        end if;
    end if;
    if v_shut or v_locked is not null then
        perform mqpg._report_foreign_lock(v_id, case when v_shut then null else v_locked end);
    end if;
end
$$;

-- Ends half messages that stayed undecided for longer than the expire_after of their producer
-- group, counted from their first look or their rearm(), so that none pins a segment for ever.
-- Returns one row for each: action is parked or expired.
-- With checker `due_checks`, or parked by a group whose ledger is here or whose checker is a
-- function, they are decided here, after a fence. With checker `function` those that are not parked
-- are left to _check_back(), which asks the function once more.
-- With checker `url` the fence belongs into another database, so they are parked. The compensator
-- that knows the ledger asks about them there as soon as it answers. Until then they stay parked,
-- because a rollback without that fence could contradict a local commit. The same holds for half
-- messages whose group was dropped or got another ledger, and for those that carry a ledger in
-- another database, whatever the group's checker.
-- Locks: the entries' rows, where those that others have locked are skipped; the ledger keys and
-- the decisions' keys, each waited for at most 50 ms.
-- Cost: for each group an index range of its overdue entries; the parked entries once; a few
-- lookups, an insert and a decision for each half message that ends.
create function mqpg._expire_halves(max_messages bigint)
returns table (handle text, producer_group text, action text, reason text)
language plpgsql security definer set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
    v_checked boolean := mqpg._require_privilege('worker');
    v_now timestamptz := clock_timestamp();
    v_done bigint := 0;
    v_half record;
    v_entry record;
begin
    perform mqpg._require_own_database();
    perform mqpg._force_sync();
    for v_entry in
        select q.msg_id, q.message ->> 'handle' as handle, q.message ->> 'ledger' as ledger, g.name, g.checker,
            g.checker_target, g.expire_after
        from (
            select p.name, p.checker, p.checker_target, p.expire_after from mqpg.producer_group p
            where p.checker in ('due_checks', 'url')
            union all
            select '', 'url', null, interval '7 days'    -- the group was dropped
        ) as g
        cross join lateral (
            select e.msg_id, e.message
            from pgmq.q_mqpg_oplog e
            where e.message ->> 'producer_group' = g.name and e.vt <= v_now and e.enqueued_at <= v_now - g.expire_after
            limit _expire_halves.max_messages
            for update skip locked
        ) as q
        order by random()
        limit _expire_halves.max_messages
    loop
        select h.* into v_half from mqpg._half_by_handle(v_entry.handle) h;
        if not v_half.known or mqpg._is_decided_half(v_half.message_id) then
            delete from pgmq.q_mqpg_oplog q where q.msg_id = v_entry.msg_id;
            continue;
        end if;
        handle := v_entry.handle;
        producer_group := v_entry.name;
        reason := format('undecided for longer than %s', v_entry.expire_after);
        if v_entry.checker = 'due_checks' then
            action := mqpg._end_or_park(handle, v_entry.name, v_entry.msg_id, reason);
            continue when action is null;
        else
            action := 'parked';
            reason := reason || '; a rollback needs a fence in ' || coalesce(
                mqpg._ledger_name(v_entry.name, v_entry.ledger), 'the ledger ' || v_entry.checker_target,
                'the ledger of a group that was dropped');
            perform mqpg._park(v_half.message_id, v_entry.msg_id, 'expiry', reason);
        end if;
        v_done := v_done + 1;
        return next;
    end loop;
    if v_done >= _expire_halves.max_messages or not exists (select from pgmq.a_mqpg_oplog) then
        return;
    end if;
    for v_entry in
        select p.message ->> 'handle' as handle, g.name, g.expire_after
        from pgmq.a_mqpg_oplog p
        join mqpg.producer_group g on g.name = p.message ->> 'producer_group'
        cross join lateral (values ((p.message ->> 'message_id')::bigint)) as i(message_id)
        where p.enqueued_at <= v_now - g.expire_after and p.message ->> 'ledger' is null
            and (g.checker = 'due_checks'
                or (g.checker in ('function', 'ledger') and i.message_id / 1024 > g.ledger_since))
            and exists (select from mqpg._half_by_id(i.message_id)) and not mqpg._is_decided_half(i.message_id)
        order by random()
        limit _expire_halves.max_messages - v_done
    loop
        handle := v_entry.handle;
        producer_group := v_entry.name;
        action := 'expired';
        reason := format('undecided for longer than %s', v_entry.expire_after);
        continue when mqpg._end_expired(handle, v_entry.name, reason) is null;
        return next;
    end loop;
end
$$;

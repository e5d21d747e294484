-- Checks overdue half messages of the groups whose checker is in this database: those with checker
-- `ledger`, or those with checker `function` and that target; null means both kinds. Half messages
-- that were decided meanwhile are removed from the check queue and not counted. Returns how many
-- it worked on.
-- Groups take turns of ten, in random order, so that a group with nothing but open or failing
-- transactions does not slow the others. After a function that ran into the statement_timeout the
-- call ends, because nothing would end the next one.
-- Locks: the entries' rows, where those that others have locked are skipped; the ledger keys and
-- the decisions' keys, each waited for at most 50 ms.
-- Cost: an index probe for each group; a few lookups, an insert and a decision for each half
-- message.
create function mqpg._compensate(max_messages int, checker text default null, checker_target text default null)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('worker');
    v_now timestamptz;
    v_group mqpg.producer_group;
    v_entry record;
    v_half record;
    v_done int := 0;
    v_claimed boolean;
begin
    perform mqpg._require_range('max_messages', _compensate.max_messages, 1, 10000);
    -- Checker functions are called without new entries, whose lock would last as long as the calls.
    if _compensate.checker = 'function' then
        perform mqpg._require_own_transaction('compensate');
        perform mqpg._require_own_database();
    else
        perform mqpg._enqueue_halves_now('compensate');
    end if;
    perform mqpg._force_sync();
    v_now := clock_timestamp();    -- the same for all rounds, so that no entry is taken twice
    loop
        v_claimed := false;
        for v_group in
            select g.* from mqpg.producer_group g
            -- A probe for each group, because a join might read the whole queue.
            cross join lateral (
                select from pgmq.q_mqpg_oplog q
                where q.message ->> 'producer_group' = g.name and q.vt <= v_now
                limit 1
            ) as overdue
            where g.checker in ('ledger', 'function')
                and (_compensate.checker is null or g.checker = _compensate.checker)
                and (_compensate.checker_target is null or g.checker_target = _compensate.checker_target)
            order by random()
        loop
            exit when v_done >= _compensate.max_messages;
            for v_entry in
                select e.msg_id, e.handle
                from mqpg._claim_entries(
                    v_group.name, least(10, _compensate.max_messages - v_done), interval '30 seconds', v_now) e
            loop
                v_claimed := true;
                select h.* into v_half from mqpg._check_back(v_group, v_entry.msg_id, v_entry.handle) h;
                v_done := v_done + v_half.asked::int;
                if v_half.timed_out then
                    return v_done;
                end if;
            end loop;
        end loop;
        exit when not v_claimed or v_done >= _compensate.max_messages;
    end loop;
    return v_done;
end
$$;

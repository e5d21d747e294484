-- Checks overdue half messages whose producer group has its checker in this database: the ledger,
-- which is asked with a fence, or a SQL function (protocol T3). New half messages enter the op-log
-- queue first. Half messages that stayed undecided for longer than the expire_after of their group
-- are then rolled back after a fence, or parked if the fence belongs into another database.
-- Each fence is held until the end of the transaction, so a worker calls compensate(1) repeatedly.
-- If groups have functions, set a statement_timeout: a function that hangs is then a check without
-- an answer, and the call ends with it. The others are checked by the next call.
-- Arguments:
--   max_messages: work on at most so many, 1 to 10000; default 100.
-- Returns: how many half messages it worked on.
-- Locks, cost: as of _compensate() and _expire_halves().
-- Errors: MQ001 (argument), MQ015 (must be called in a READ COMMITTED transaction that has written
-- nothing).
create function mqpg.compensate(max_messages int default 100) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('worker');
    v_done bigint := mqpg._compensate(compensate.max_messages);
begin
    if v_done < compensate.max_messages then
        v_done := v_done + (select count(*) from mqpg._expire_halves(compensate.max_messages - v_done));
    end if;
    perform mqpg._note_call('compensator');
    return v_done;
end
$$;

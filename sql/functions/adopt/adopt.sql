-- Turns a copy of a broker into a broker. Call it, before any other transaction writes, after a
-- dump was restored into another cluster, after a promotion, or after a recovery to a point in time
-- (append() raises MQ016 until then), and after a base backup was brought back.
-- It raises the incarnation, moves message ids, tick ids and cursor versions far beyond those that
-- the original may have used meanwhile, and frees all claims. Older receipts are then stale, while
-- older handles stay valid. In another cluster the transaction ids of all rows are meaningless, so
-- they are rewritten, and what had no offset yet is appended by the next append().
-- Arguments:
--   same_xids: true says that the transaction ids are those of the original cluster (pg_upgrade);
--       default false.
-- Returns: a text that says what was done.
-- Locks: the appender's and the keeper's; cursor, against writers; the sequence of batch ids; after a
-- restore all hot tables, ACCESS EXCLUSIVE. Each up to the setting lock_timeout. A sender that comes
-- meanwhile waits for its id, because the partition of the new ids is committed with adopt().
-- Cost: one version per cursor; after a restore every row of the hot tables is rewritten, the only
-- time that they see an UPDATE.
-- Errors: MQ001 (null), MQ015 (must be called in a READ COMMITTED transaction that has written
-- nothing), MQ016 (same_xids cannot be true), 55P03.
create function mqpg.adopt(same_xids boolean default false) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator');
    if adopt.same_xids is null then
        raise exception using errcode = 'MQ001', message = 'same_xids must be true or false, not null';
    end if;
    perform mqpg._require_own_transaction('adopt');
    perform mqpg._apply_lock_timeout();
    lock table mqpg.append_lock in exclusive mode;
    return mqpg._adopt(adopt.same_xids);
end
$$;

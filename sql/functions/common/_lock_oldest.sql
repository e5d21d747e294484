-- Lets keep() not move oldest offsets until the end of the transaction, so that a subscription can
-- begin at one of them. Returns false if keep() is moving them and `waits` is false. A REPEATABLE
-- READ transaction that does not see the last move gets 40001, because it would begin at an offset
-- that is about to be dropped.
-- Locks: 1836150838 with 0, shared, up to the setting lock_timeout; in a REPEATABLE READ
-- transaction also the row of queue_tail without a topic, FOR SHARE.
-- Cost: negligible.
create function mqpg._lock_oldest(waits boolean default true) returns boolean
language plpgsql as $$
declare
    v_timeout text;
begin
    if not pg_try_advisory_xact_lock_shared(1836150838, 0) then
        if not _lock_oldest.waits then
            return false;
        end if;
        v_timeout := mqpg._apply_lock_timeout();
        perform pg_advisory_xact_lock_shared(1836150838, 0);
        perform set_config('lock_timeout', v_timeout, true);
    end if;
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        perform from mqpg.queue_tail q where q.topic_id = 0 and q.queue_id = 0 and q.subscription_id = 0 for share;
    end if;
    return true;
end
$$;

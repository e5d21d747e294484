-- Takes the locks of all cursors of a subscription at once until the end of the transaction: that
-- of the subscription, which everybody shares who locks one of its queues. A topic may have 1000
-- queues and many groups, and a server with default settings has no room for so many locks.
-- Locks: 1836150843 with subscription_id, exclusively, waiting up to the setting lock_timeout.
-- Meanwhile nobody begins to read the subscription, so it is not overtaken.
-- Cost: negligible if no other transaction has one of the queues.
-- Errors: 55P03.
create function mqpg._lock_cursors(subscription_id int) returns void
language plpgsql as $$
declare
    v_timeout text := mqpg._apply_lock_timeout();
begin
    perform pg_advisory_xact_lock(1836150843, _lock_cursors.subscription_id);
    perform set_config('lock_timeout', v_timeout, true);
end
$$;

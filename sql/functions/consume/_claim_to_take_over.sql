-- Which of a queue's claims the next receive() takes over: its place in `claims`. 0: none, fresh
-- messages come next; null: nothing, the queue is blocked. Claims that were returned or whose lease
-- ran out come before fresh messages.
-- Modes exclusive and broadcast: an open claim blocks the queue. Mode pinned: the owner takes its
-- open claim over at once, because no other consumer may have it. Mode shared: up to 64 claims are
-- open. A failed message that waits for its back-off (negative epoch) blocks the queue with
-- block_queue only.
-- Locks: none. Cost: linear in the claims.
create function mqpg._claim_to_take_over(subscription mqpg.subscription, claims mqpg.claim []) returns int
language plpgsql volatile as $$
declare
    v_mode text := _claim_to_take_over.subscription.mode;
    v_now timestamptz := clock_timestamp();
    v_claim mqpg.claim;
    v_nth int := 0;
    v_open int := 0;
    v_free int;         -- the first that was returned
    v_expired int;      -- the first whose lease ran out (pinned: any that has a lease)
begin
    foreach v_claim in array _claim_to_take_over.claims loop
        v_nth := v_nth + 1;
        if v_claim.epoch > 0 then
            v_open := v_open + 1;
            if v_claim.lease_until <= v_now or v_mode = 'pinned' then
                v_expired := coalesce(v_expired, v_nth);
            elsif v_mode <> 'shared' then
                return null;
            end if;
        elsif v_claim.lease_until <= v_now then
            v_free := coalesce(v_free, v_nth);
        elsif _claim_to_take_over.subscription.on_failure = 'block_queue' then
            return null;
        end if;
    end loop;
    if v_mode = 'shared' and v_open >= 64 then
        return v_expired;
    end if;
    return coalesce(least(v_free, v_expired), 0);
end
$$;

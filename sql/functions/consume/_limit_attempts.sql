-- The offset at which a claim must end so that each of its messages has attempts left after this
-- one, or is alone with its last one. If the first message has no attempt left, it becomes a dead
-- letter, and the result is negative.
-- Locks: where it writes a dead letter, the subscription's row, as _require_subscribed().
-- Cost: one look at each run of the range.
-- Errors: MQ005 (unsubscribed meanwhile), 55P03, 40001.
create function mqpg._limit_attempts(subscription mqpg.subscription, queue_id int, lane int, claim mqpg.claim)
returns bigint
language plpgsql as $$
declare
    v_max int := (_limit_attempts.subscription).max_attempts;
    v_first boolean := true;
    v_message record;
begin
    for v_message in
        select m.* from mqpg._claimed_messages(
            (_limit_attempts.subscription).topic_id, _limit_attempts.queue_id, _limit_attempts.lane,
            _limit_attempts.claim) m
    loop
        if v_first and v_message.attempt > v_max then
            perform mqpg._require_subscribed(_limit_attempts.subscription);
            perform mqpg._bury(
                (_limit_attempts.subscription).subscription_id, array[v_message.message_id],
                array[v_message.deliver_id], array[v_max], 'lease ran out at the last attempt');
            return -(v_message.queue_offset + 1);
        elsif v_first and v_message.attempt = v_max then
            return v_message.queue_offset + 1;
        elsif v_message.attempt >= v_max then
            return v_message.queue_offset;
        end if;
        v_first := false;
    end loop;
    return (_limit_attempts.claim).to_offset;
end
$$;

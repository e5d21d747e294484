-- The offset at which a claim must end so that each of its messages has attempts left after this
-- one, or is alone with its last one. If the first message has no attempt left, it becomes a dead
-- letter: `buried` is true, and `to_offset` is the one behind it.
-- Locks: if it writes a dead letter, the subscription's row, as _require_subscribed().
-- Cost: one look at each run of the range.
-- Errors: MQ005 (unsubscribed meanwhile), 55P03, 40001.
create function mqpg._limit_attempts(
    subscription mqpg.subscription, queue_id int, lane int, claim mqpg.claim,
    out to_offset bigint, out buried boolean
)
language plpgsql as $$
declare
    v_max int := _limit_attempts.subscription.max_attempts;
    v_first boolean := true;
    v_message record;
begin
    buried := false;
    to_offset := _limit_attempts.claim.to_offset;
    for v_message in
        select m.* from mqpg._claimed_messages(
            _limit_attempts.subscription.topic_id, _limit_attempts.queue_id, _limit_attempts.lane,
            _limit_attempts.claim) m
    loop
        if v_message.attempt >= v_max then
            to_offset := v_message.queue_offset + case when v_first then 1 else 0 end;
            if v_first and v_message.attempt > v_max then
                perform mqpg._require_subscribed(_limit_attempts.subscription);
                perform mqpg._bury(
                    _limit_attempts.subscription.subscription_id, array[v_message.message_id],
                    array[v_message.deliver_id], array[v_max], 'lease ran out at the last attempt');
                buried := true;
            end if;
            return;
        end if;
        v_first := false;
    end loop;
end
$$;

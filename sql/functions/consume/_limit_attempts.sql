-- The offset at which a claim must end so that each of its messages has attempts left after this
-- one, or is alone with its last one. Messages at the beginning that have no attempt left become dead
-- letters: `buried` is true, and `to_offset` is the one behind them. With max_attempts 1 every attempt
-- is the last one, and messages are delivered together.
-- `lane_of` is the subscription whose retry lane the queue is, or 0 for a queue of the topic.
-- Locks: if it writes dead letters, the subscription's row, as _require_subscribed().
-- Cost: one look at each run of the range; none for fresh messages with max_attempts 1.
-- Errors: MQ005 (unsubscribed meanwhile), 55P03, 40001.
create function mqpg._limit_attempts(
    subscription mqpg.subscription, queue_id int, lane_of int, claim mqpg.claim,
    out to_offset bigint, out buried boolean
)
language plpgsql as $$
declare
    v_max int := _limit_attempts.subscription.max_attempts;
    v_message record;
    v_first boolean := true;
    v_ids bigint [] := '{}';        -- without an attempt left
    v_bodies bigint [] := '{}';
    v_attempts int [] := '{}';
begin
    buried := false;
    to_offset := _limit_attempts.claim.to_offset;
    if _limit_attempts.lane_of = 0 and v_max = 1 and _limit_attempts.claim.attempt = 1 then
        return;
    end if;
    for v_message in
        select m.* from mqpg._claimed_messages(
            _limit_attempts.subscription.topic_id, _limit_attempts.queue_id, _limit_attempts.lane_of,
            _limit_attempts.claim) m
    loop
        if v_message.attempt > v_max and (v_first or v_ids <> '{}') then
            v_ids := v_ids || v_message.message_id;
            v_bodies := v_bodies || v_message.deliver_id;
            v_attempts := v_attempts || v_message.attempt - 1;
        elsif v_ids <> '{}' or v_message.attempt >= v_max and (v_max > 1 or v_message.attempt > v_max) then
            to_offset := v_message.queue_offset + case when v_first then 1 else 0 end;
            exit;
        end if;
        v_first := false;
    end loop;
    if v_ids <> '{}' then
        perform mqpg._require_subscribed(_limit_attempts.subscription);
        perform mqpg._bury(
            _limit_attempts.subscription.subscription_id, v_ids, v_bodies,
            v_attempts, 'lease ran out at the last attempt', limited => true);
        buried := true;
    end if;
end
$$;

-- Messages whose attempts are used up in one subscription, the latest first, with the last reason.
-- Locks: none. Cost: one row of the commit log a message.
-- Errors: MQ001, MQ002, MQ003, MQ005, MQ014 (a body is missing).
create function mqpg.dead_letters(consumer_group text, topic text, max_messages int default 100) returns table (
    message_id bigint, queue_id int, key text, payload json, attempts int, reason text, died_at timestamptz
)
language plpgsql stable as $$
declare
    v_subscription mqpg.subscription := mqpg._subscription(dead_letters.consumer_group, dead_letters.topic);
    v_dead mqpg.dead_letter;
    v_body record;
begin
    perform mqpg._check_range('max_messages', dead_letters.max_messages, 1, 100000);
    for v_dead in
        select d.* from mqpg.dead_letter d
        where d.subscription_id = v_subscription.subscription_id
        order by d.died_at desc, d.message_id desc
        limit dead_letters.max_messages
    loop
        select m.key, m.payload into v_body from mqpg._message(v_dead.deliver_id) m;
        if not found then
            raise exception using errcode = 'MQ014', message = format(
                'the body of dead letter %s of %L on topic %L is missing', v_dead.message_id,
                dead_letters.consumer_group, dead_letters.topic);
        end if;
        message_id := v_dead.message_id;
        queue_id := v_dead.queue_id;
        key := v_body.key;
        payload := v_body.payload;
        attempts := v_dead.attempts;
        reason := v_dead.reason;
        died_at := v_dead.died_at;
        return next;
    end loop;
end
$$;
comment on function mqpg.dead_letters(text, text, int) is 'Dead letters of a subscription, latest first';

-- What a queue waits for that a failed message blocks (on_failure block_queue), how to try it again
-- at once, and how to leave it out.
-- Arguments: claim: that of the failed message.
-- Locks: none. Cost: one lookup and at most 100 cursor versions.
create function mqpg._why_blocked(
    subscription mqpg.subscription, topic mqpg.topic, last_version mqpg.cursor, claim mqpg.claim, out detail jsonb,
    out remedy text
)
language plpgsql stable as $$
declare
    v_subscription mqpg.subscription := _why_blocked.subscription;
    v_topic mqpg.topic := _why_blocked.topic;
    v_cursor mqpg.cursor := _why_blocked.last_version;
    v_claim mqpg.claim := _why_blocked.claim;
    v_message_id bigint;
    v_reason text;
    v_again bigint := mqpg._acknowledged_ahead(v_cursor);
begin
    v_message_id := (mqpg._runs(v_topic.topic_id, v_cursor.queue_id, 0, v_claim.from_offset,
        v_claim.from_offset + 1)).ids[1];
    select c.reason into v_reason from mqpg.cursor c
    where c.subscription_id = v_cursor.subscription_id and c.queue_id = v_cursor.queue_id
        and c.version > v_cursor.version - 100 and c.action = 'n' and v_claim.from_offset = any(c.failed)
    order by c.version desc limit 1;
    detail := jsonb_strip_nulls(jsonb_build_object('message_id', v_message_id, 'reason', v_reason));
    remedy := format('Message %s at offset %s of queue %s has failed %s%s. It is delivered again %s, and the queue '
        'waits for it (on_failure block_queue)%s. Mend what makes the handler fail.',
        v_message_id, v_claim.from_offset, v_cursor.queue_id,
        case v_claim.attempt when 1 then 'once' else v_claim.attempt || ' times' end,
        ' (' || left(v_reason, 200) || ')', mqpg._until(v_claim.lease_until),
        case when v_topic.queues > 1 then '. Other queues do not wait for it' else '' end);
    -- A consumer with a database of its own reads on from the offset there, whatever a seek does.
    -- Where an earlier message is open, a seek would leave that one out too.
    if v_subscription.mode = 'pinned' or v_claim.from_offset <> v_cursor.committed then
        return;
    end if;
    remedy := remedy || format(' After that, to try it again at once: %s To leave it out instead, which makes it no '
        'dead letter: %s%s',
        mqpg._seek_statement(v_subscription, v_topic, v_claim.from_offset::text, v_cursor.queue_id),
        mqpg._seek_statement(v_subscription, v_topic, (v_claim.from_offset + 1)::text, v_cursor.queue_id), case
            when v_again > 0 then format(' Both also deliver again up to %s later message%s that %s acknowledged '
                'already.', mqpg._number(v_again), case v_again when 1 then '' else 's' end, case v_again when 1 then 'is' else 'are'
                end)
            else ''
        end);
end
$$;

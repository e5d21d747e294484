-- What a queue waits for that a failed message blocks (on_failure block_queue), and the call that
-- tries it again at once. The same call with the next offset leaves it out.
-- Arguments: claim: that of the failed message.
-- Locks: none. Cost: one lookup and at most 100 cursor versions.
create function mqpg._why_blocked(
    subscription mqpg.subscription, topic mqpg.topic, last_version mqpg.cursor, claim mqpg.claim, out detail jsonb,
    out remedy jsonb
)
language plpgsql stable as $$
declare
    v_subscription mqpg.subscription := _why_blocked.subscription;
    v_topic mqpg.topic := _why_blocked.topic;
    v_cursor mqpg.cursor := _why_blocked.last_version;
    v_claim mqpg.claim := _why_blocked.claim;
    v_message_id bigint;
    v_reason text;
begin
    v_message_id := (mqpg._runs(v_topic.topic_id, v_cursor.queue_id, 0, v_claim.from_offset,
        v_claim.from_offset + 1)).ids[1];
    select c.reason into v_reason from mqpg.cursor c
    where c.subscription_id = v_cursor.subscription_id and c.queue_id = v_cursor.queue_id
        and c.version > v_cursor.version - 100 and c.action = mqpg._action('nack')
        and v_claim.from_offset = any(c.failed)
    order by c.version desc limit 1;
    detail := jsonb_strip_nulls(jsonb_build_object('message_id', v_message_id, 'reason', v_reason));
    -- A consumer with a database of its own reads on from the offset there, whatever a seek does.
    -- Where an earlier message is open, a seek would leave that one out too.
    if v_subscription.mode <> 'pinned' and v_claim.from_offset = v_cursor.committed then
        detail := detail || jsonb_build_object('acknowledged_ahead', mqpg._acknowledged_ahead(v_cursor));
        remedy := mqpg._seek_remedy(v_subscription, v_topic, v_cursor.queue_id, v_claim.from_offset);
    end if;
end
$$;

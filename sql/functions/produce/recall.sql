-- Takes back a delayed message (a delayed send, or a half message committed with a delay) before it
-- is due.
-- Arguments:
--   message_id: id of the message.
-- Returns: true when the message will not be delivered, also when the call is repeated; false when
-- it is too late.
-- Locks: 1836150839, 0 (shared) and one of the message's own, until the end of the transaction. The
-- appender sees by them which messages it must leave for later. From the 65th recall of a
-- transaction on all share one, 1836150839, 1. Also the decision's key.
-- Cost: one row read, one row written.
-- Errors: MQ001 (null, or not a delayed message), 40001 (REPEATABLE READ callers), MQ025.
create function mqpg.recall(message_id bigint) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_topic_id int;
    v_queue_id smallint;
    v_standing "char";
    v_recalls text := current_setting('mqpg.recalls', true);  -- of this transaction so far
begin
    if recall.message_id >= 0 then    -- the bound below would overflow for the least numbers
        select d.topic_id, d.queue_id into v_topic_id, v_queue_id from mqpg.delayed d
        where d.first_id <= recall.message_id and d.first_id > recall.message_id - 1024
            and recall.message_id < d.first_id + d.n and d.subscription_id = 0
        limit 1;
    end if;
    if v_topic_id is null then
        perform mqpg._require_fresh(recall.message_id);
    end if;
    if recall.message_id >= 0 and not mqpg._has_right('send', v_topic_id) then
        perform mqpg._refuse('may not recall messages of this topic', 'grant_send', '{"topic": null}');
    end if;
    -- What another producer group committed is not the sender's to take back. In a relay topic the
    -- COMMIT is a message of its own.
    perform mqpg._require_half_of(h.producer_group_id)
    from mqpg._message(recall.message_id) m
    left join mqpg.op_log o on o.message_id = mqpg._message_of_handle(m.headers ->> 'mqpg-handle') and o.stage = 0
        and o.deliver_id = recall.message_id
    cross join lateral mqpg._half_by_id(coalesce(o.message_id, recall.message_id)) h
    where h.producer_group_id is not null;
    if v_topic_id is null then
        raise exception using errcode = 'MQ001', message = format(
            'message_id must be the id of a delayed message, not %s', coalesce(recall.message_id::text, 'null'));
    end if;
    perform mqpg._force_sync();
    perform pg_advisory_xact_lock_shared(1836150839, 0);
    if v_recalls = '64' then
        perform pg_advisory_xact_lock_shared(1836150839, 1);
    else
        perform pg_advisory_xact_lock(1836150840, hashint8(recall.message_id));
        perform set_config('mqpg.recalls', (coalesce(nullif(v_recalls, ''), '0')::int + 1)::text, true);
    end if;
    insert into mqpg.op_log (message_id, stage, order_no, xid, op, at, topic_id, queue_id, decided_by)
    values (
        recall.message_id, 1, nextval('mqpg.batch_id'), pg_current_xact_id(), 'r', clock_timestamp(),
        v_topic_id, v_queue_id, 'producer')
    on conflict do nothing;
    select o.op into v_standing from mqpg.op_log o where o.message_id = recall.message_id and o.stage = 1;
    return v_standing = 'r';
end
$$;

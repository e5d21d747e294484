-- Moves one queue of a subscription to an offset that its reader has stored, for advance(): a version
-- that delivers the messages before it, and one that acknowledges them.
-- Locks: none; the caller holds the queue's cursor lock.
-- Cost: two cursor versions; at most one, `filtered` (see _action()), if the position is there already.
-- Errors: MQ013, 40001.
create function mqpg._advance_queue(subscription mqpg.subscription, queue_id int, to_offset bigint) returns void
language plpgsql as $$
declare
    v_id int := (_advance_queue.subscription).subscription_id;
    v_cursor mqpg.cursor := mqpg._cursor(v_id, _advance_queue.queue_id);
    v_tail bigint;
    v_claim mqpg.claim;
    v_obstacle text;
    v_version bigint;
begin
    if v_cursor.claimed = _advance_queue.to_offset and v_cursor.claims = '{}' then
        if mqpg._was_moved_back(v_cursor) then    -- and the reader begins there; a further call can follow it
            v_version := mqpg._write_cursor(
                v_cursor, mqpg._action('filtered'), null, v_cursor.claimed, v_cursor.owner, '{}');
        end if;
        return;
    end if;
    v_tail := mqpg._tail((_advance_queue.subscription).topic_id, _advance_queue.queue_id, 0);
    v_obstacle := case
        when v_cursor.claims <> '{}' then 'a consumer has received messages of it'
        when v_cursor.claimed > _advance_queue.to_offset then 'the position is beyond it'
        when mqpg._was_moved_back(v_cursor) then 'the position was moved back since'
        when v_tail < _advance_queue.to_offset then format('the next offset is %s', v_tail)
    end;
    if v_obstacle is not null then
        raise exception using errcode = 'MQ013', message = format(
            'consumer group %L is at offset %s of queue %s and cannot follow to offset %s: %s',
            (_advance_queue.subscription).consumer_group, v_cursor.committed, _advance_queue.queue_id,
            _advance_queue.to_offset, v_obstacle),
            hint = 'The position and the offset that the reader stored disagree. Move the position there with seek(), '
                'or let the reader begin at the position, with a new checkpoint.';
    end if;
    v_claim := row(
        mqpg._epoch(v_cursor.version + 1), v_cursor.claimed, _advance_queue.to_offset, 1,
        clock_timestamp() + interval '30 s', null, null, null, null)::mqpg.claim;
    v_version := mqpg._write_cursor(
        v_cursor, mqpg._action('receive'), v_claim.epoch, _advance_queue.to_offset, v_cursor.owner, array[v_claim]);
    v_cursor := mqpg._cursor(v_id, _advance_queue.queue_id);
    v_version := mqpg._write_cursor(
        v_cursor, mqpg._action('ack'), v_claim.epoch, _advance_queue.to_offset, v_cursor.owner, '{}');
end
$$;

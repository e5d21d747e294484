-- Applies the policies of topics where a group that does not read keeps a closed tick segment from
-- being dropped: lose_after, when the group left it unread for so long after the segment was
-- closed, and lose_over, when the group's unread part of closed segments exceeds so many bytes. The
-- group's position moves to the end of its part of the segment.
-- Every loss is reported: in the view losses, by a row of keep(), by a warning, and by a
-- notification on the channel mqpg_loss. A queue that is in use is left for the next keep(), and so is
-- what comes after 250 queues, because the lock table of the server is small.
-- Locks: each queue's cursor lock and, shared, its subscription's, tried only.
-- Cost: three index lookups for each queue of each subscription; with lose_over also the sizes of
-- up to 64 record batches for each closed segment that the group has not read.
create function mqpg._apply_loss_policies(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_from bigint := (_apply_loss_policies.segment).lower_bound::bigint;
    v_to bigint := (_apply_loss_policies.segment).upper_bound::bigint;
    v_pin record;
    v_why text;
    v_lost bigint;
    v_moved int := 0;
begin
    for v_pin in
        select u.*, t.lose_after, t.lose_over
        from mqpg._undelivered(v_from, v_to) u
        join mqpg.topic t on t.topic_id = u.topic_id
        where (t.lose_after is not null or t.lose_over is not null)
            and (_apply_loss_policies.segment).closed_at + t.retention <= clock_timestamp()
    loop
        v_why := case
            when (_apply_loss_policies.segment).closed_at + v_pin.lose_after <= clock_timestamp() then 'age'
            when v_pin.lose_over is not null and (
                select sum(p.bytes) from mqpg._pins(v_pin.subscription_id) p) > v_pin.lose_over then 'size'
        end;
        continue when v_why is null;
        continue when not pg_try_advisory_xact_lock_shared(1836150843, v_pin.subscription_id);
        continue when not mqpg._lock_free_cursor(v_pin.subscription_id, v_pin.queue_id);
        v_lost := mqpg._move_cursor(
            (select s from mqpg.subscription s where s.subscription_id = v_pin.subscription_id), v_pin.queue_id,
            v_pin.next_offset, v_why);
        detail := format('%s lost %s messages of %s %s before offset %s by policy (%s)',
            v_pin.consumer_group || coalesce(' / ' || nullif(v_pin.member, ''), ''), v_lost, v_pin.topic,
            case when v_pin.queue_id = -1 then 'retries' else 'queue ' || v_pin.queue_id end, v_pin.next_offset,
            v_why);
        perform mqpg._notify('mqpg_loss', jsonb_build_object('topic', v_pin.topic, 'consumer_group',
            v_pin.consumer_group, 'member', nullif(v_pin.member, ''), 'queue_id', v_pin.queue_id, 'messages', v_lost,
            'before', v_pin.next_offset, 'why', v_why)::text);
        raise warning '%', detail;
        action := 'lost';
        family := 'tick';
        segment_no := (_apply_loss_policies.segment).segment_no;
        return next;
        v_moved := v_moved + 1;
        exit when v_moved = 250;
    end loop;
end
$$;

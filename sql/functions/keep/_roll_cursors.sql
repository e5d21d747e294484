-- Makes a new cursor slot when the newest one is older than the setting `cursor_slot_age`, copies
-- the newest state of every queue that is still in an older slot, and closes slots that are no
-- longer needed.
-- Locks: each queue's cursor lock, tried only, held until commit.
-- Cost: one lookup for each queue of each subscription, two inserts where it is copied; DDL for a
-- new slot.
create function mqpg._roll_cursors()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_newest mqpg.segment;
    v_queue record;
    v_carried bigint := 0;
    v_busy bigint := 0;
begin
    select s.* into v_newest from mqpg.segment s where s.family = 'cursor' order by s.segment_no desc limit 1;
    if v_newest.made_at <= clock_timestamp() - mqpg._setting('cursor_slot_age')::interval then
        begin
            v_newest := mqpg._make_segment(
                'cursor', v_newest.upper_bound, (v_newest.upper_bound::bigint + 1)::text, true);
            return query select 'made', 'cursor', v_newest.segment_no, 'cursor_' || v_newest.segment_no;
        exception when lock_not_available then
            return query select 'blocked', 'cursor', v_newest.segment_no, 'cursor is in use';
        end;
    end if;
    if not exists (
        select from mqpg.segment s
        where s.family = 'cursor' and s.segment_no < v_newest.segment_no and s.dropped_at is null
    ) then
        return;
    end if;
    for v_queue in
        select s.subscription_id, c.queue_id
        from mqpg.subscription s
        join mqpg.topic t on t.topic_id = s.topic_id
        cross join lateral generate_series(-1, t.queues - 1) as q(queue_id)
        cross join lateral (
            select k.queue_id, k.slot from mqpg.cursor k
            where k.subscription_id = s.subscription_id and k.queue_id = q.queue_id
            order by k.version desc limit 1
        ) as c
        where c.slot < v_newest.lower_bound::int
    loop
        if mqpg._carry_cursor(v_queue.subscription_id, v_queue.queue_id, v_newest.lower_bound::int) then
            v_carried := v_carried + 1;
        else
            v_busy := v_busy + 1;
        end if;
    end loop;
    if v_carried > 0 or v_busy > 0 then
        return query select case when v_carried > 0 then 'carried' else 'blocked' end, 'cursor', v_newest.segment_no,
            format('%s queues carried, %s in use', v_carried, v_busy);
    end if;
    if v_busy = 0 then
        return query
        update mqpg.segment s set closed_at = clock_timestamp()
        where s.family = 'cursor' and s.segment_no < v_newest.segment_no and s.closed_at is null
        returning 'closed', 'cursor', s.segment_no, 'all queues are carried';
    end if;
end
$$;
comment on function mqpg._roll_cursors() is
    'Internal: begin the next cursor slot by age and copy the state';

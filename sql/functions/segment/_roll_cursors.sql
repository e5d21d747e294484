-- Makes a new cursor slot when the newest one is older than the setting `cursor_slot_age`, copies
-- the newest states from older slots into it, at most 250 in a call, and closes the older slots
-- when nothing is left in them. While four slots cannot be closed, because queues stay in use, it
-- makes no other one.
-- Where a call ends is noted in segment.carried_to, and the next one continues there. A queue that
-- a consumer has locked is noted in segment.carry_again; its consumer copies it with its next write
-- (_write_cursor), and later calls look whether that has happened. At last one call looks at all
-- cursors, while no transaction is open that begins one, and closes the slots.
-- A receive() that finds nothing but queues that this call has locked waits for its commit
-- (_await_cursor_copy), so the locks are taken when all that is slow is over.
-- Locks: each copied queue's cursor lock and, shared, its subscription's, tried only, and
-- 1836150835 with 1; for closing 1836150835 with 2, tried only. All until commit.
-- Cost: two inserts for each cursor that it copies; see _cursors_to_copy(); DDL for a new slot.
create function mqpg._roll_cursors()
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_most constant int := 250;
    v_most_slots constant int := 4;
    v_newest mqpg.segment;
    v_slots int;
    v_is_old boolean;
    v_keys int [];
    v_locked int [];
    v_carried int;
begin
    select s.* into v_newest from mqpg.segment s where s.family = 'cursor' order by s.segment_no desc limit 1;
    select count(*) into v_slots from mqpg.segment s where s.family = 'cursor' and s.closed_at is null;
    v_is_old := v_slots > 1;
    if v_newest.made_at <= clock_timestamp() - mqpg._setting('cursor_slot_age')::interval
        and (not v_is_old or (v_newest.carried_to is null and v_newest.carry_again <> '{}'
                and v_slots < v_most_slots)) then
        begin
            v_newest := mqpg._make_segment(
                'cursor', v_newest.upper_bound, (v_newest.upper_bound::bigint + 1)::text, true);
            v_newest.carried_to := 0;
            v_is_old := true;
            return query select 'made', 'cursor', v_newest.segment_no, 'cursor_' || v_newest.segment_no;
        exception when lock_not_available then
            return query select 'blocked', 'cursor', v_newest.segment_no, 'cursor is in use';
        end;
    end if;
    if not v_is_old then
        return;
    end if;
    if v_newest.carried_to is not null then
        v_keys := array(
            select u.key from mqpg._cursors_to_copy(v_newest.lower_bound::int, v_newest.carried_to, v_most) as u(key)
            limit v_most);
        v_newest.carried_to := v_keys[v_most];
    else
        -- A consumer may have copied its own, and be inside its next transaction.
        v_newest.carry_again := array(
            select a.key from unnest(v_newest.carry_again) as a(key)
            where not exists (
                select from mqpg.cursor n
                where n.subscription_id = a.key / 1024 and n.queue_id = a.key % 1024 - 1
                    and n.slot >= v_newest.lower_bound::int));
        v_keys := v_newest.carry_again[:v_most];
        v_newest.carry_again := v_newest.carry_again[v_most + 1:];
    end if;
    if v_keys = '{}' and v_newest.carried_to is null and v_newest.carry_again = '{}' then
        if not pg_try_advisory_xact_lock(1836150835, 2) then
            update mqpg.segment s set blocked_since = clock_timestamp()
            where s.family = 'cursor' and s.segment_no < v_newest.segment_no and s.closed_at is null
                and s.blocked_since is null;
            return query select 'blocked', 'cursor', v_newest.segment_no, 'a subscription is being made';
            return;
        end if;
        v_keys := array(select u.key from mqpg._cursors_to_copy(v_newest.lower_bound::int, 0, v_most) as u(key)
            limit v_most);
        if v_keys = '{}' then
            return query
            update mqpg.segment s set closed_at = clock_timestamp(), blocked_since = null
            where s.family = 'cursor' and s.segment_no < v_newest.segment_no and s.closed_at is null
            returning 'closed', 'cursor', s.segment_no, 'all queues are carried';
            return;
        end if;
    end if;
    perform pg_advisory_xact_lock(1836150835, 1);
    v_locked := array(
        select k.key from unnest(v_keys) as k(key)
        where pg_try_advisory_xact_lock_shared(1836150843, k.key / 1024)
            and pg_try_advisory_xact_lock(1836150833, k.key));
    v_carried := mqpg._copy_cursors(v_locked, v_newest.lower_bound::int);
    v_newest.carry_again := v_newest.carry_again || array(
        select k.key from unnest(v_keys) as k(key) where k.key <> all(v_locked));
    update mqpg.segment s set carried_to = v_newest.carried_to, carry_again = v_newest.carry_again
    where s.family = 'cursor' and s.segment_no = v_newest.segment_no;
    if v_locked = '{}' then
        update mqpg.segment s set blocked_since = clock_timestamp()
        where s.family = 'cursor' and s.segment_no < v_newest.segment_no and s.closed_at is null
            and s.blocked_since is null;
    end if;
    return query select case when cardinality(v_locked) > 0 then 'carried' else 'blocked' end, 'cursor',
        v_newest.segment_no, format('%s queues carried, %s in use', v_carried, cardinality(v_newest.carry_again));
end
$$;

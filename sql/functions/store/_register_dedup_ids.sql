-- Registers dedup ids. Returns, for each element, null if the message is the first with its id
-- within the window (or has no id), else the id of the first message. Each dedup id is written into
-- the current slot and into the next one, so that two sends within a window meet in one of them. A
-- message is new if both inserts succeed. All callers insert the ids in the same order, sorted and
-- slot by slot, so they cannot deadlock. A message with a dedup id is a record batch of its own,
-- because its message id must be known before it is known to be new. A REPEATABLE READ caller whose
-- snapshot does not show the id gets 40001. An id is free again if its message ended before any
-- delivery; `halves` says that a half message that was rolled back still has it.
-- Locks: the inserted keys; waits for a running send with the same dedup id.
-- Cost: two index inserts for each dedup id; one lookup more for each message of the same id that ended
-- within the window.
create function mqpg._register_dedup_ids(
    topic_id int, dedup_ids text [], message_ids bigint [], halves boolean default false
) returns bigint []
language plpgsql as $$
declare
    v_now_slot bigint;
    v_slot bigint;
    v_window_began timestamptz;
    v_wanted bigint [];
    v_first bigint [];
    v_freed record;
begin
    if _register_dedup_ids.topic_id > 0 and exists (select from unnest(_register_dedup_ids.dedup_ids) u(d)
        where octet_length(u.d) not between 1 and 512) then
        raise exception using errcode = 'MQ001', message = 'dedup_id must have 1 to 512 bytes';
    end if;
    -- Before the setting is read, so that no transaction uses its old value while it changes.
    lock table only mqpg.dedup in row exclusive mode;
    v_now_slot := mqpg._dedup_slot();
    -- Between the first slot that has a partition and the last but one: there may be no others if the
    -- keeper was away for long. Then a message of the slot may be older than the window.
    select least(greatest(v_now_slot, min(s.lower_bound::bigint)), max(s.upper_bound::bigint) - 2) into v_slot
    from mqpg.segment s where s.family = 'dedup' and s.leaving is null and s.dropped_at is null;
    if v_slot < v_now_slot then
        v_window_began := clock_timestamp() - mqpg._setting('dedup_window')::interval;
    end if;
    with fresh as (
        select distinct on (u.d) u.d, u.m
        from unnest(_register_dedup_ids.dedup_ids, _register_dedup_ids.message_ids) with ordinality as u(d, m, o)
        where u.d is not null order by u.d, u.o
    ),
    stored as (
        insert into mqpg.dedup (topic_id, dedup_id, slot, message_id)
        select _register_dedup_ids.topic_id, f.d, v_slot, f.m from fresh f order by f.d
        on conflict do nothing returning message_id
    )
    select array_agg(s.message_id) into v_wanted from stored s;
    with fresh as (
        select u.d, u.m from unnest(_register_dedup_ids.dedup_ids, _register_dedup_ids.message_ids) as u(d, m)
        where u.m = any(v_wanted)
    ),
    stored as (
        insert into mqpg.dedup (topic_id, dedup_id, slot, message_id)
        select _register_dedup_ids.topic_id, f.d, v_slot + 1, f.m from fresh f order by f.d
        on conflict do nothing returning message_id
    )
    select array_agg(s.message_id) into v_wanted from stored s;
    -- A new statement sees the rows that the inserts waited for. If both slots have the id, the
    -- later one is right, because a send that lost at a slot's boundary leaves a row in the earlier
    -- one only.
    select array_agg(case when u.m = any(v_wanted) or u.d is null then null else abs(k.message_id) end order by u.o)
    into v_first
    from unnest(_register_dedup_ids.dedup_ids, _register_dedup_ids.message_ids) with ordinality as u(d, m, o)
    left join lateral (
        select e.message_id from mqpg.dedup e
        where e.topic_id = _register_dedup_ids.topic_id and e.dedup_id = u.d and e.slot between v_slot and v_slot + 1
        order by e.slot desc limit 1
    ) as k on true;
    -- An id whose first message has ended is free again. Its next message is registered under that one,
    -- with the negated topic, because rows are never changed. The later slot names the last one of these,
    -- negated, so that the next one is found from there.
    select array_agg(u.o) as places, array_agg(u.d) as dedup_ids, array_agg(u.m) as message_ids,
        array_agg(l.id) as ended, array_agg(u.base || '.' || l.id) as next_ids
    into v_freed
    from (
        select k.d, k.m, k.f, k.o, case
                when _register_dedup_ids.topic_id > 0 then k.d
                else regexp_replace(k.d, '[.][0-9]+$', '')
            end as base
        from unnest(_register_dedup_ids.dedup_ids, _register_dedup_ids.message_ids, v_first) with
            ordinality as k(d, m, f, o)
        where k.f <> all(_register_dedup_ids.message_ids)
            and (mqpg._frees_dedup_id(k.f, abs(_register_dedup_ids.topic_id), _register_dedup_ids.halves)
                or (select m.born_at from mqpg._message(k.f) m) < v_window_began)
        offset 0
    ) as u
    cross join lateral (
        select mqpg._last_ended(_register_dedup_ids.topic_id, u.base, u.f, v_slot) as id
    ) as l;
    if v_freed.places is not null then
        insert into mqpg.dedup (topic_id, dedup_id, slot, message_id)
        select distinct on (u.d) _register_dedup_ids.topic_id, u.d, v_slot + 1, -u.id
        from unnest(v_freed.dedup_ids, v_freed.ended) as u(d, id) order by u.d
        on conflict do nothing;
        v_wanted := mqpg._register_dedup_ids(
            -abs(_register_dedup_ids.topic_id), v_freed.next_ids, v_freed.message_ids, _register_dedup_ids.halves);
        for v_i in 1..cardinality(v_freed.places) loop
            v_first[v_freed.places[v_i]] := v_wanted[v_i];
        end loop;
    end if;
    return v_first;
end
$$;

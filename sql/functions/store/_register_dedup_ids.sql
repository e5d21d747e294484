-- Registers dedup ids. Returns, for each element, null if the message is the first with its id
-- within the window (or has no id), else the id of the first message. Each dedup id is written into
-- the current slot and into the next one, so that two sends within a window meet in one of them. A
-- message is new if both inserts succeed. All callers insert the ids in the same order, sorted and
-- slot by slot, so they cannot deadlock. A message with a dedup id is a record batch of its own,
-- because its message id must be known before it is known to be new. A REPEATABLE READ caller whose
-- snapshot does not show the id gets 40001. An id is free again if its message ended before any
-- delivery; `halves` says that a half message that was rolled back still has it.
-- Locks: the inserted keys; waits for a running send with the same dedup id.
-- Cost: two index inserts for each dedup id.
create function mqpg._register_dedup_ids(
    topic_id int, dedup_ids text [], message_ids bigint [], halves boolean default false
) returns bigint []
language plpgsql as $$
declare
    v_slot bigint;
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
    -- Between the first slot that has a partition and the last but one: there may be no others if the
    -- keeper was away for long.
    select least(greatest(mqpg._dedup_slot(), min(s.lower_bound::bigint)), max(s.upper_bound::bigint) - 2) into v_slot
    from mqpg.segment s where s.family = 'dedup' and s.leaving is null and s.dropped_at is null;
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
    select array_agg(case when u.m = any(v_wanted) or u.d is null then null else k.message_id end order by u.o)
    into v_first
    from unnest(_register_dedup_ids.dedup_ids, _register_dedup_ids.message_ids) with ordinality as u(d, m, o)
    left join lateral (
        select e.message_id from mqpg.dedup e
        where e.topic_id = _register_dedup_ids.topic_id and e.dedup_id = u.d and e.slot between v_slot and v_slot + 1
        order by e.slot desc limit 1
    ) as k on true;
    -- An id whose first message has ended is free again. Its next message is registered under that one,
    -- with the negated topic, because rows are never changed. The first one's row is kept in the later
    -- slot, so that the next one is found from there.
    select array_agg(u.o) as places, array_agg(u.d || '.' || u.f) as dedup_ids, array_agg(u.m) as message_ids
    into v_freed
    from (
        select k.* from unnest(_register_dedup_ids.dedup_ids, _register_dedup_ids.message_ids, v_first) with
            ordinality as k(d, m, f, o)
        where k.f <> all(_register_dedup_ids.message_ids)
    ) as u
    where mqpg._frees_dedup_id(u.f, abs(_register_dedup_ids.topic_id), _register_dedup_ids.halves);
    if v_freed.places is not null then
        insert into mqpg.dedup (topic_id, dedup_id, slot, message_id)
        select distinct on (u.d) _register_dedup_ids.topic_id, u.d, v_slot + 1, u.f
        from unnest(_register_dedup_ids.dedup_ids, v_first) with ordinality as u(d, f, o)
        where u.o = any(v_freed.places) order by u.d
        on conflict do nothing;
        v_wanted := mqpg._register_dedup_ids(
            -abs(_register_dedup_ids.topic_id), v_freed.dedup_ids, v_freed.message_ids, _register_dedup_ids.halves);
        for v_i in 1..cardinality(v_freed.places) loop
            v_first[v_freed.places[v_i]] := v_wanted[v_i];
        end loop;
    end if;
    return v_first;
end
$$;

-- Trigger on settings. Slots of dedup are numbered in units of dedup_window, so when that setting
-- changes, the known dedup ids are stored again under the new numbers.
-- Locks: the keeper's; ACCESS EXCLUSIVE on dedup; each waited for up to the setting lock_timeout.
-- Sends with a dedup id wait for it, or it waits for them.
-- Cost: one row for each id of the window, and DDL.
-- Errors: 55P03; then nothing is changed.
create function mqpg._renumber_dedup() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    v_timeout text := mqpg._apply_lock_timeout();
    v_next record;
    v_old bigint;
    v_new bigint;           -- computed only after its partition exists
begin
    perform pg_advisory_xact_lock(1836150835, 0);
    lock table mqpg.dedup in access exclusive mode;
    v_old := mqpg._dedup_slot(old.value::interval);
    -- What a send would find: where both slots have the id, the later slot is right.
    create temp table mqpg_known as
    select distinct on (d.topic_id, d.dedup_id) d.topic_id, d.dedup_id, d.message_id
    from mqpg.dedup d
    where d.slot between v_old and v_old + 1
    order by d.topic_id, d.dedup_id, d.slot desc;
    truncate mqpg.dedup;
    loop
        select n.* into v_next from mqpg._next_segment('dedup') n;
        exit when not found;
        perform mqpg._make_segment('dedup', v_next.lower_bound, v_next.upper_bound, v_next.opened);
    end loop;
    v_new := mqpg._dedup_slot(new.value::interval);
    insert into mqpg.dedup (topic_id, dedup_id, slot, message_id)
    select k.topic_id, k.dedup_id, v_new + s.s, k.message_id
    from pg_temp.mqpg_known k
    cross join generate_series(0, 1) as s(s);
    drop table pg_temp.mqpg_known;
    perform set_config('lock_timeout', v_timeout, true);
    return null;
end
$$;

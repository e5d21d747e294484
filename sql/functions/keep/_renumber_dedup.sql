-- Trigger on settings: slots of dedup are numbered in lengths of dedup_window, so with another window the ids that are
-- known now get their places under the new numbers; those of the old ones mean nothing any more.
-- Locks: the keeper's; ACCESS EXCLUSIVE on dedup, each waited for up to the setting lock_timeout (55P03, and nothing is
-- changed): sends with a dedup id wait for it or it for them. Cost: a row for each id of the window, and DDL.
create function mqpg._renumber_dedup() returns trigger
language plpgsql as $$
declare
    v_timeout text := mqpg._apply_lock_timeout();
    v_next record;
    v_old bigint;
    v_new bigint;           -- not before its partition is there
begin
    perform pg_advisory_xact_lock(1836150835, 0);
    lock table mqpg.dedup in access exclusive mode;
    v_old := mqpg._dedup_slot(old.value::interval);
    -- what _first_sends() would find: the later slot is right where both have the id
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
comment on function mqpg._renumber_dedup() is 'Internal: known dedup ids under the numbers of another window';

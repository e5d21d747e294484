-- Puts the new tables of a merge in the place of the old partitions, all tables of the family in
-- one transaction. Nothing is copied here, so a snapshot that is older than this transaction finds
-- the same rows as before. Decisions and checks that came after the copying are copied first, in a
-- call of its own.
-- It needs a moment without any open transaction on these tables. Where transactions overlap at
-- every moment and last longer than it waits, there is none, and it reports `blocked` for ever.
-- Locks: ACCESS EXCLUSIVE on the parents, each before its partitions, waited for at most 60 ms
-- altogether, and 20 ms for each partition. Everybody else queues behind that.
-- Cost: DDL; one lookup for each message that may still be decided.
create function mqpg._finish_merge(merge mqpg.segment_merge)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql
set lock_timeout = '60ms' as $$
declare
    v_merge mqpg.segment_merge := _finish_merge.merge;
    v_no bigint := v_merge.segment_nos[1];
    v_table record;
    v_rows bigint;
    v_old bigint;
    v_name text;
    v_lower text;
    v_upper text;
    v_began timestamptz;
begin
    if exists (
        select from mqpg.topic t
        where t.topic_id = any(v_merge.topic_ids)
            and v_merge.closed_at + t.retention > clock_timestamp()
    ) then
        return query select c.* from mqpg._cancel_merge(
            v_merge.family, 'a retention was changed meanwhile') c;
        return;
    end if;
    v_rows := mqpg._copy_late_decisions(v_merge);
    if v_rows > 0 then
        update mqpg.segment_merge m
        set copied_rows = m.copied_rows + v_rows, copied_xid = pg_current_xact_id() where m.family = v_merge.family;
        return query select 'merging', v_merge.family, v_no, format('%s late decisions and checks copied', v_rows);
        return;
    end if;
    select count(*) into v_old from mqpg._older_snapshots(v_merge.copied_xid);
    if v_old > 0 then
        return query select 'blocked', v_merge.family, v_no, format(
            'merge: %s sessions have a snapshot from before the copying; the next keep() tries again', v_old);
        return;
    end if;
    v_began := clock_timestamp();
    begin
        for v_table in select f.* from mqpg._family_tables(v_merge.family) f loop
            -- What is left of the time: who waits for the first table waits for all of them.
            perform set_config('lock_timeout', greatest(
                1, 60 - (extract(epoch from clock_timestamp() - v_began) * 1000)::int)::text, true);
            execute format('lock table only mqpg.%I in access exclusive mode', v_table.parent);
        end loop;
        perform set_config('lock_timeout', '20ms', true);
        -- Writers of decisions are locked out now. If one came in between, the next call copies it.
        if mqpg._copy_late_decisions(v_merge) > 0 then
            raise lock_not_available;
        end if;
        for v_table in select f.* from mqpg._family_tables(v_merge.family) f loop
            foreach v_name in array array(
                select format('mqpg.%I', mqpg._partition_name(v_table.parent, u.no)) from unnest(v_merge.segment_nos) as u(no)
            ) loop
                execute 'drop table if exists ' || v_name;
            end loop;
            v_lower := mqpg._scaled_bound(v_merge.lower_bound, v_table.per_unit);
            v_upper := mqpg._scaled_bound(v_merge.upper_bound, v_table.per_unit);
            v_name := mqpg._partition_name(v_table.parent, v_no);
            execute format('alter table mqpg.%I rename to %I', mqpg._merge_name(v_table.parent, v_no), v_name);
            execute format('alter table mqpg.%I attach partition mqpg.%I for values from (%L) to (%L)', v_table.parent,
                v_name, v_lower, v_upper);
            execute format('alter table mqpg.%I drop constraint merged', v_name);
            perform mqpg._identify_rows('mqpg', v_name);
        end loop;
    exception when lock_not_available then
        return query select 'blocked', v_merge.family, v_no, 'merge: a table is in use; the next keep() tries again';
        return;
    end;
    update mqpg.segment s set
        upper_bound = v_merge.upper_bound, closed_at = m.closed_at, body_dropped_at = m.body_dropped_at,
        decided_at = m.decided_at, merged_at = clock_timestamp(), left_out = m.left_out, sizes = null
    from (
        select max(k.closed_at) as closed_at,
            case when bool_and(k.decided_at is not null) then max(k.decided_at) end as decided_at,
            case when bool_and(k.body_dropped_at is not null) then max(k.body_dropped_at) end as body_dropped_at,
            array(select distinct u.t from (
                select unnest(v_merge.topic_ids) as t
                union all
                select unnest(o.left_out) from mqpg.segment o
                where o.family = v_merge.family and o.segment_no = any(v_merge.segment_nos)
                union all
                -- Rows of dropped topics are never copied, and segments without bodies have none.
                select 0
                where bool_or(k.body_dropped_at is not null) and bool_or(k.body_dropped_at is null)
                    or exists (select from mqpg.dropped_topic d where d.dropped_at > min(k.made_at))
            ) u order by 1) as left_out
        from mqpg.segment k where k.family = v_merge.family and k.segment_no = any(v_merge.segment_nos)
    ) as m
    where s.family = v_merge.family and s.segment_no = v_no;
    delete from mqpg.segment s
    where s.family = v_merge.family and s.segment_no = any(v_merge.segment_nos) and s.segment_no <> v_no;
    delete from mqpg.segment_merge m where m.family = v_merge.family;
    return query select 'merged', v_merge.family, v_no, format('segments %s with %s rows, without %s topics',
        array_to_string(v_merge.segment_nos, ', '), v_merge.copied_rows, cardinality(v_merge.topic_ids));
end
$$;

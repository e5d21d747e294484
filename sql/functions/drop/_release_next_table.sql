-- Releases the next table of one closed segment if its time has come, and reports it, or reports
-- why it is still needed.
-- Locks: see the functions for each kind of table. None of them makes anybody wait.
-- Cost: one look at what the segment's messages are still needed for.
create function mqpg._release_next_table(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
begin
    if _release_next_table.segment.family = 'tick' then
        if _release_next_table.segment.tails_noted_at is null then
            return;
        elsif not mqpg._is_past_retention(_release_next_table.segment) then
            -- Topics with a longer retention keep the segment. The policies of the others apply.
            if exists (
                select from mqpg.topic t
                where (t.lose_after is not null or t.lose_over is not null)
                    and _release_next_table.segment.closed_at + t.retention <= clock_timestamp()
            ) then
                return query select l.* from mqpg._apply_loss_policies(_release_next_table.segment) l;
            end if;
            return;
        end if;
        return query select l.* from mqpg._apply_loss_policies(_release_next_table.segment) l;
        if found then
            return;     -- the next keep() releases it, after this loss is committed
        end if;
        if _release_next_table.segment.segment_no = (
            select min(s.segment_no) from mqpg.segment s where s.family = 'tick' and s.dropped_at is null
        ) then
            for action, family, segment_no, detail in
                select r.* from mqpg._release_ticks(_release_next_table.segment) r
            loop
                return next;
                if action = 'released' then
                    return;
                end if;
            end loop;
        end if;
        return query select r.* from mqpg._raise_oldest(_release_next_table.segment) r;
    elsif _release_next_table.segment.family <> 'log' then
        -- find_by_key() and trace() need delayed rows to locate a message, so these stay as long as
        -- messages do.
        if _release_next_table.segment.family <> 'delayed' or not exists (
            select from mqpg.topic t where _release_next_table.segment.closed_at + t.retention > clock_timestamp()
        ) then
            return query select d.* from mqpg._release_slot(_release_next_table.segment) d;
        end if;
    elsif _release_next_table.segment.body_dropped_at is null then
        if mqpg._is_past_retention(_release_next_table.segment) then
            return query select d.* from mqpg._release_bodies(_release_next_table.segment) d;
        end if;
    elsif _release_next_table.segment.body_dropped_at <= clock_timestamp() - mqpg._setting('op_log_keep')::interval then
        return query select d.* from mqpg._release_decisions(_release_next_table.segment) d;
    end if;
end
$$;

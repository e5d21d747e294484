-- Releases the next table of one closed segment if its time has come, and reports it, or reports
-- why it is still needed.
-- Locks: see the functions for each kind of table. None of them makes anybody wait.
-- Cost: one look at what the segment's messages are still needed for.
create function mqpg._allow_drop_if_due(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
begin
    if _allow_drop_if_due.segment.family = 'tick' then
        if _allow_drop_if_due.segment.tails_noted_at is null then
            return;
        elsif not mqpg._is_past_retention(_allow_drop_if_due.segment) then
            -- Topics with a longer retention keep the segment. The policies of the others apply.
            if exists (
                select from mqpg.topic t
                where (t.lose_after is not null or t.lose_over is not null)
                    and _allow_drop_if_due.segment.closed_at + t.retention <= clock_timestamp()
            ) then
                return query select l.* from mqpg._apply_loss_policies(_allow_drop_if_due.segment) l;
            end if;
            return;
        end if;
        return query select l.* from mqpg._apply_loss_policies(_allow_drop_if_due.segment) l;
        if found then
            return;     -- the next keep() releases it, after this loss is committed
        end if;
        if _allow_drop_if_due.segment.segment_no = (
            select min(s.segment_no) from mqpg.segment s where s.family = 'tick' and s.dropped_at is null
        ) then
            for action, family, segment_no, detail in
                select r.* from mqpg._allow_drop_ticks(_allow_drop_if_due.segment.segment_no) r
            loop
                return next;
                if action = 'released' then
                    return;
                end if;
            end loop;
        end if;
        return query select r.* from mqpg._raise_oldest(_allow_drop_if_due.segment) r;
    elsif _allow_drop_if_due.segment.family <> 'log' then
        -- find_by_key() and trace() need delayed rows to locate a message, so these stay as long as
        -- messages do.
        if _allow_drop_if_due.segment.family <> 'delayed' or not exists (
            select from mqpg.topic t where _allow_drop_if_due.segment.closed_at + t.retention > clock_timestamp()
        ) then
            return query
            select d.* from mqpg._allow_drop_slot(_allow_drop_if_due.segment.family,
                _allow_drop_if_due.segment.segment_no) d;
        end if;
    elsif _allow_drop_if_due.segment.body_dropped_at is null then
        if mqpg._is_past_retention(_allow_drop_if_due.segment) then
            return query select d.* from mqpg._allow_drop_bodies(_allow_drop_if_due.segment.segment_no) d;
        end if;
    elsif _allow_drop_if_due.segment.body_dropped_at <= clock_timestamp() - mqpg._setting('op_log_keep')::interval then
        return query select d.* from mqpg._allow_drop_decisions(_allow_drop_if_due.segment.segment_no) d;
    end if;
end
$$;

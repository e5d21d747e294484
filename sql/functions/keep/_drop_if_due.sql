-- Drops the next table of one closed segment if its time has come, and reports it, or reports why
-- the table cannot be dropped.
-- Locks: ACCESS EXCLUSIVE on a partition and its parent, waited for at most 100 ms.
-- Cost: one look at what the segment's messages are still needed for.
create function mqpg._drop_if_due(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
begin
    if _drop_if_due.segment.family = 'tick' then
        if _drop_if_due.segment.body_dropped_at is null then
            if not mqpg._is_past_retention(_drop_if_due.segment) then
                return;
            end if;
            return query select l.* from mqpg._lose(_drop_if_due.segment) l;
            if found then
                return;     -- the next keep() drops it, after this loss is committed
            end if;
        end if;
        if _drop_if_due.segment.segment_no = (
            select min(s.segment_no) from mqpg.segment s where s.family = 'tick' and s.dropped_at is null
        ) then
            return query select d.* from mqpg._drop_ticks(_drop_if_due.segment.segment_no) d;
        end if;
        if _drop_if_due.segment.body_dropped_at is null and to_regclass(
            'mqpg.consume_queue_' || _drop_if_due.segment.segment_no) is not null then
            return query select r.* from mqpg._raise_oldest(_drop_if_due.segment) r;
        end if;
    elsif _drop_if_due.segment.family <> 'log' then
        -- find_by_key() and trace() need delayed rows to locate a message, so these stay as long as
        -- messages do.
        if _drop_if_due.segment.family <> 'delayed' or not exists (
            select from mqpg.topic t where _drop_if_due.segment.closed_at + t.retention > clock_timestamp()
        ) then
            return query
            select d.* from mqpg._drop_slot(_drop_if_due.segment.family, _drop_if_due.segment.segment_no) d;
        end if;
    elsif _drop_if_due.segment.body_dropped_at is null then
        if mqpg._is_past_retention(_drop_if_due.segment) then
            return query select d.* from mqpg._drop_log_bodies(_drop_if_due.segment.segment_no) d;
        end if;
    elsif _drop_if_due.segment.body_dropped_at <= clock_timestamp() - mqpg._setting('op_log_keep')::interval then
        return query select d.* from mqpg._drop_decisions(_drop_if_due.segment.segment_no) d;
    end if;
end
$$;
comment on function mqpg._drop_if_due(mqpg.segment) is
    'Internal: drop the next table of a closed segment';

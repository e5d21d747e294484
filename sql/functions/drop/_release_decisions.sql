-- Releases what remains of a log segment after its bodies were dropped, so that op_log and then
-- check_log are dropped. They stay for the setting `op_log_keep`, and for as long as a decision
-- about one of their ids may still be written: for an undecided surviving half message, for a
-- delayed message that is not due yet (the appender writes `due` even if the topic was dropped), or
-- for a commit that is not appended. The partition is sealed before the last look, so that no
-- decision can come later.
-- Without op_log it is no longer known what became of the surviving half messages. Those that were
-- rolled back are therefore deleted. Those that were committed (dead letters, for example) stay as
-- normal messages, and a repeated decision gets the outcome unknown.
-- Locks: SHARE ROW EXCLUSIVE on the partition, waited for at most 100 ms; it stops no reader.
-- Cost: a few index ranges.
create function mqpg._release_decisions(segment mqpg.segment)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_segment mqpg.segment := _release_decisions.segment;
    v_tick mqpg.tick;
    v_from bigint := v_segment.lower_bound::bigint * 1024;
    v_to bigint := v_segment.upper_bound::bigint * 1024;
begin
    for v_look in 1..2 loop
        select t.* into v_tick from mqpg.tick t order by t.tick_id desc limit 1;
        if exists (
            select from mqpg.held h
            where h.message_id >= v_from and h.message_id < v_to and h.kind = 'h' and not exists (
                select from mqpg.op_log o
                where o.message_id = h.message_id and o.stage = 0 and o.message_id >= v_from and o.message_id < v_to)
        ) or exists (
            select from mqpg.delayed d
            where d.subscription_id = 0 and d.first_id >= v_from - 1023 and d.first_id < v_to
                and (v_tick.tick_id is null or d.visible_at > v_tick.due_until
                    or not pg_visible_in_snapshot(d.xid, v_tick.snapshot))
        ) or exists (
            select from mqpg.op_log o
            where o.message_id >= v_from and o.message_id < v_to and o.op = 'c' and o.visible_at is null
                and (v_tick.tick_id is null or not pg_visible_in_snapshot(o.xid, v_tick.snapshot))
        ) then
            if v_look = 2 then
                raise lock_not_available;   -- undoes the seal
            end if;
            return query
            select 'pinned', 'log', v_segment.segment_no, 'op_log: one of its messages may still be decided';
            return;
        end if;
        if v_look = 1 and not mqpg._seal_partition('op_log', v_segment.segment_no) then
            raise lock_not_available;
        end if;
    end loop;
    delete from mqpg.held h using mqpg.op_log o
    where h.message_id >= v_from and h.message_id < v_to and h.kind = 'h'
        and o.message_id = h.message_id and o.message_id >= v_from and o.message_id < v_to
        and o.stage = 0 and (o.op = 'b' or h.relay);
    update mqpg.held h set kind = 'n', nonce = null,
        payload = coalesce((select f.payload from mqpg.held f where f.message_id = o.deliver_id), h.payload)
    from mqpg.op_log o
    where h.message_id >= v_from and h.message_id < v_to and h.kind = 'h'
        and o.message_id = h.message_id and o.message_id >= v_from and o.message_id < v_to and o.stage = 0;
    perform mqpg._release_table('log', v_segment.segment_no, 'op_log');
    return query select 'released', 'log', v_segment.segment_no,
        mqpg._partition_name('op_log', v_segment.segment_no);
exception when lock_not_available then
    return query
    select 'blocked', 'log', v_segment.segment_no,
        'a decision is being written into op_log; the next keep() tries again';
end
$$;

-- Notes that the server's clock went back, and mends what was written by it while it was ahead: times
-- of segments, heartbeats and overdue half messages, and leases of queues that nobody uses at this
-- moment. Dead letters from that time say so in their reason.
-- Locks: the rows; cursor locks, tried only. Cost: a lookup for each queue, and the dead letters once.
create function mqpg._note_clock_step(by interval) returns void
language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_dead_letters bigint;
begin
    insert into mqpg.clock as c (ahead, seen_at) values (_note_clock_step.by, v_now)
    on conflict (singleton) do update set ahead = c.ahead + excluded.ahead, seen_at = excluded.seen_at;
    update mqpg.dead_letter d
    set reason = concat_ws('; ', d.reason, format('the server''s clock was ahead by %s then', _note_clock_step.by))
    where d.died_at > v_now;
    get diagnostics v_dead_letters = row_count;
    insert into mqpg.clock_step (at, by, ahead, dead_letters)
    select v_now, _note_clock_step.by, c.ahead, v_dead_letters from mqpg.clock c;
    -- Not least(), which would close and drop the segments whose time is null.
    update mqpg.segment s set
        made_at = case when s.made_at > v_now then v_now else s.made_at end,
        opened_at = case when s.opened_at > v_now then v_now else s.opened_at end,
        closed_at = case when s.closed_at > v_now then v_now else s.closed_at end,
        blocked_since = case when s.blocked_since > v_now then v_now else s.blocked_since end,
        body_dropped_at = case when s.body_dropped_at > v_now then v_now else s.body_dropped_at end
    where greatest(s.made_at, s.opened_at, s.closed_at, s.blocked_since, s.body_dropped_at) > v_now;
    update mqpg.worker w set seen_at = v_now where w.seen_at > v_now;
    update pgmq.q_mqpg_oplog q
    set enqueued_at = least(q.enqueued_at, v_now), vt = greatest(v_now, q.vt - _note_clock_step.by)
    where q.enqueued_at > v_now or q.vt > v_now + _note_clock_step.by;
    perform mqpg._shorten_leases(_note_clock_step.by);
    raise warning 'the clock of the server went back by %: delays go on by the time that it was', _note_clock_step.by;
end
$$;

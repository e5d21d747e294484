-- Messages that stay to be judged, although the tick judged.last_tick or one before it has appended
-- them.
select m.message_id
from message as m
cross join judged as j
join tick as t on t.tick_id = j.last_tick
where m.state = 'committed'
    and pg_visible_in_snapshot(m.commit_xid, t.snapshot)
    and coalesce(m.due_at <= t.due_until, true)
    and (m.message_id >= j.until_id or exists (select from open_message as o where o.message_id = m.message_id))

-- Messages below the parameter until_id whose life is not over at the tick last_tick: undecided or
-- delayed, not appended by then, with a retry that comes later, or with a row in a ledger or outbox
-- that will change.
with own (message_id) as (
    select m.message_id from message as m
    where m.state in ('undecided', 'delayed') or m.waiting or (m.state = 'committed' and m.expected and not exists (
        select from queued as q where q.message_id = m.message_id
    ))
    union
    select e.message_id from entry as e where e.tick_id > %(last_tick)s
    union
    select d.message_id
    from delayed as d
    cross join tick as t
    where t.tick_id = %(last_tick)s
        and not (d.visible_at <= t.due_until and pg_visible_in_snapshot(d.xid, t.snapshot))
    union
    select f.message_id from deferred as f
    union
    select m.message_id from ledger_match as m
    where m.audited and not m.in_broker and m.entry = 'local' and m.done_at is null
    union
    select o.message_id from outbox as o
)

select o.message_id
from own as o
join message as m on m.message_id = o.message_id
where o.message_id < %(until_id)s

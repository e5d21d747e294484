-- Dead letters, and those that were redriven or discarded. excuses: the group need not apply it.
-- last_attempt: the last one that it lists. An expiry lists none.
select
    l.subscription_id, l.message_id,
    l.final_id as deliver_id,
    l.queue_id, l.attempts, l.died_at, l.left_at,
    case when l.attempts = 0 and l.reason = 'expired' then 0 else l.last_attempt end as last_attempt,
    l.state = 'dead' as present,
    l.state in ('dead', 'discarded') as excuses
from mqpg_audit.dead_letter as l
cross join judged as j
where j.reading = (
    l.message_id >= j.until_id or exists (select from open_message as m where m.message_id = l.message_id)
)

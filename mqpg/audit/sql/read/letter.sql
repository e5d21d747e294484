-- Dead letters, and those that were redriven or discarded. excuses: the group need not apply it.
select l.subscription_id, l.message_id, l.deliver_id, l.attempts, l.died_at, true as present, true as excuses
from mqpg.audit_dead_letter as l
union all
select
    f.subscription_id,
    f.message_id,
    null,
    f.attempts,
    f.died_at,
    false,
    f.fate = 'discarded'
from mqpg.audit_former_dead_letter as f

-- Dead letters, and those that were redriven or discarded. excuses: the group need not apply it.
select a.subscription_id, a.message_id, a.deliver_id, a.attempts, a.died_at, a.present, a.excuses
from (
    select l.subscription_id, l.message_id, l.deliver_id, l.attempts, l.died_at, true as present, true as excuses
    from mqpg.audit_dead_letter as l
    union all
    select
        f.subscription_id, f.message_id, null, f.attempts, f.died_at, false,
        f.fate = 'discarded'
    from mqpg.audit_former_dead_letter as f
) as a
cross join judged as j
where j.reading = (
    a.message_id >= j.until_id or exists (select from open_message as m where m.message_id = a.message_id)
)

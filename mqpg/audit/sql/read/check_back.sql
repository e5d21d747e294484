-- What was noted of the checks of half messages. decider: who decides with it.
select
    c.message_id, c.event,
    c.checked_at as at,
    case c.event when 'settled' then 'admin' when 'expired' then 'expiry' end as decider
from mqpg_audit.check_back as c
cross join judged as j
where j.reading
    and (c.message_id >= j.until_id or exists (select from open_message as m where m.message_id = c.message_id))

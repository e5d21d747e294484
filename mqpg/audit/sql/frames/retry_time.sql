-- When each retry becomes visible, and by which transaction. A redriven message may come several times by the
-- same attempt: then these are the earliest ones and the last ones.
select
    d.subscription_id, d.message_id, d.attempt,
    min(d.visible_at) as visible_at,
    max(d.visible_at) as last_at,
    min(d.xid) as xid,
    max(d.xid) as last_xid
from delayed as d
where d.subscription_id > 0
group by 1, 2, 3

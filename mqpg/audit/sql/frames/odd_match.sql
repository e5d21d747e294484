-- The rows of ledger_match of which the ledger does not simply say local, and the broker that the message was
-- committed after that and is in a queue, or that have a time after the audit.
select m.*
from ledger_match as m
cross join run as u
where not m.audited or m.entry is distinct from 'local' or m.state <> 'committed' or not m.seen
    or m.named_topic <> m.topic or m.created_at > m.decided_at
    or greatest(m.created_at, m.done_at) > u.taken_at
    or least(m.born_at, m.decided_at) > least(m.created_at, m.done_at)

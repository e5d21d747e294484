-- Half messages that are neither decided nor parked.
-- Cost: as _half_pending().
create view mqpg.half_pending as
select v.handle, v.producer_group, v.topic, v.prepared_at, v.check_at, v.checks, v.reason
from mqpg._half_pending() as v;
-- prepared_at: When prepare() stored it
-- check_at: When its next check is due
-- checks: Number of checks so far
-- reason: Why its checker cannot be asked now, or else the last reason that a check-back gave

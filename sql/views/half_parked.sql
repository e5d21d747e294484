-- Half messages that are parked until an administrator decides them with settle(), or has them
-- checked again with rearm().
-- Cost: as _half_parked().
create view mqpg.half_parked as
select v.handle, v.producer_group, v.topic, v.prepared_at, v.check_at, v.checks, v.reason, v.parked_at
from mqpg._half_parked() as v;
-- prepared_at: When prepare() stored it
-- check_at: When it was first due for a check
-- checks: Number of checks so far
-- reason: The last reason that a check-back gave
-- parked_at: When it was parked

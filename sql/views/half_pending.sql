-- Half messages that are neither decided nor parked.
-- Cost: as _half_pending().
create view mqpg.half_pending as
select v.handle, v.producer_group, v.topic, v.prepared_at, v.check_at, v.checks, v.reason
from mqpg._half_pending() as v;
comment on column mqpg.half_pending.prepared_at is 'When prepare() stored it';
comment on column mqpg.half_pending.check_at is 'When its next check is due';
comment on column mqpg.half_pending.checks is 'Number of checks so far';
comment on column mqpg.half_pending.reason is
    'Why its checker cannot be asked now, or else the last reason that a check-back gave';

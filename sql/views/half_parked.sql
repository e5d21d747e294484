-- Half messages that are parked until an administrator decides them with settle(), or has them
-- checked again with rearm().
-- Cost: as _half_parked().
create view mqpg.half_parked as
select v.handle, v.producer_group, v.topic, v.prepared_at, v.check_at, v.checks, v.reason, v.parked_at
from mqpg._half_parked() as v;
comment on column mqpg.half_parked.prepared_at is 'When prepare() stored it';
comment on column mqpg.half_parked.check_at is 'When it was first due for a check';
comment on column mqpg.half_parked.checks is 'Number of checks so far';
comment on column mqpg.half_parked.reason is 'The last reason that a check-back gave';
comment on column mqpg.half_parked.parked_at is 'When it was parked';

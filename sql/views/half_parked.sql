-- Half messages for which no checker had an answer and whose producer group parks such messages. An
-- administrator decides them with settle() or has them checked again with rearm().
-- Cost: a few index lookups for each archived entry of the op-log queue.
create view mqpg.half_parked as
select
    v.handle,
    v.producer_group,
    v.topic,
    v.prepared_at,
    v.check_at,
    v.checks,
    v.reason,
    v.parked_at
from mqpg._half_parked() as v;
comment on view mqpg.half_parked is
    'Half messages that are parked until an administrator decides them';
comment on column mqpg.half_parked.prepared_at is 'When prepare() stored it';
comment on column mqpg.half_parked.check_at is 'When it was first due for a check';
comment on column mqpg.half_parked.checks is 'Number of checks so far';
comment on column mqpg.half_parked.reason is 'The last reason that a check-back gave';
comment on column mqpg.half_parked.parked_at is 'When it was parked';

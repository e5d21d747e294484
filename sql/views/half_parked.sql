-- Half messages for which no checker had an answer and whose producer group parks such messages. An
-- administrator decides them with settle() or has them checked again with rearm().
-- Cost: a few index lookups for each archived entry of the op-log queue.
create view mqpg.half_parked as
select
    a.message ->> 'handle' as handle,
    a.message ->> 'producer_group' as producer_group,
    t.name as topic,
    m.born_at as prepared_at,
    m.check_at,
    k.checks,
    r.reason,
    a.archived_at as parked_at
from pgmq.a_mqpg_oplog as a
cross join lateral (values ((a.message ->> 'message_id')::bigint)) as i (message_id)
cross join lateral mqpg._half_by_id(i.message_id) as m
inner join mqpg.topic as t on m.topic_id = t.topic_id
cross join lateral mqpg._checks(i.message_id) as k
cross join lateral mqpg._last_reason(i.message_id) as r (reason)
where not mqpg._is_decided_half(i.message_id);
comment on view mqpg.half_parked is
    'Half messages that are parked until an administrator decides them';
comment on column mqpg.half_parked.prepared_at is 'When prepare() stored it';
comment on column mqpg.half_parked.check_at is 'When it was first due for a check';
comment on column mqpg.half_parked.checks is 'Number of checks so far';
comment on column mqpg.half_parked.reason is 'The last reason that a check-back gave';
comment on column mqpg.half_parked.parked_at is 'When it was parked';

-- Halves that nobody could answer for and whose group parks them: settle() or rearm() them.
-- check_at is when they were first due. Cost: a few lookups for each archived entry of the op-log queue.
create view mqpg.half_parked as
select a.message ->> 'handle' as handle, a.message ->> 'producer_group' as producer_group, t.name as topic,
    m.born_at as prepared_at, m.check_at, k.checks, r.reason, a.archived_at as parked_at
from pgmq.a_mqpg_oplog a
cross join lateral (
    select l.topic_id, l.born_at, l.check_at
    from mqpg.commit_log l where l.batch_id = (a.message ->> 'message_id')::bigint / 1024
    union all
    select h.topic_id, h.born_at, h.check_at
    from mqpg.held h where h.message_id = (a.message ->> 'message_id')::bigint
    limit 1
) as m
join mqpg.topic t on t.topic_id = m.topic_id
cross join lateral mqpg._checks((a.message ->> 'message_id')::bigint) as k
left join lateral (
    select e.reason from mqpg.check_log e
    where e.message_id = (a.message ->> 'message_id')::bigint and e.reason is not null
    order by e.at desc limit 1
) as r on true
where not mqpg._is_decided((a.message ->> 'message_id')::bigint);
comment on view mqpg.half_parked is 'Half messages parked for a decision by hand';

-- Messages in the topics' queues that filters or tags of subscriptions do not choose. Such a
-- message counts as consumed without a delivery.
-- Each message is judged by the filter with which the group passed it: a filter holds for the
-- offsets between what was claimed when it came and what was claimed when it was replaced, and for
-- those to which the group was moved back meanwhile. The transaction that replaces a filter may
-- commit later than it says, so a former filter also holds for what was claimed in the hour after. If
-- the cursor's history is dropped, it holds for all offsets below.
-- Bodies are read from commit_log, or from held if their segment is dropped. A message without a
-- body is not judged.
-- Cost: reads the bodies of all filtered topics, once for each such subscription and filter.
create view mqpg_audit.unmatched as
select p.subscription_id, r.first_id + m.o - 1 as message_id
from (
    select v.subscription_id, v.topic_id, q.queue_id, v.filter, v.tags,
        least(
            coalesce((
                select c.claimed from mqpg.cursor as c
                where c.subscription_id = v.subscription_id and c.queue_id = q.queue_id and c.at <= v.since
                order by c.version desc limit 1
            ), 0), (
                select min(c.claimed) from mqpg.cursor as c
                where c.subscription_id = v.subscription_id and c.queue_id = q.queue_id and c.action = 'q'
                    and c.at > v.since and (v.until is null or c.at <= v.until + interval '1 hour')
            )) as from_offset,
        case when v.until is null then 9223372036854775807 else greatest(
            (
                select max(c.claimed) from mqpg.cursor as c
                where c.subscription_id = v.subscription_id and c.queue_id = q.queue_id
                    and c.at <= v.until + interval '1 hour'
            ), (
                select c.claimed from mqpg.cursor as c
                where c.subscription_id = v.subscription_id and c.queue_id = q.queue_id
                order by c.version limit 1
            )) end as to_offset
    from (
        select f.subscription_id, s.topic_id, f.filter, f.tags, f.until,
            lag(f.until) over (partition by f.subscription_id order by f.until nulls last) as since
        from (
            select c.subscription_id, c.filter, c.tags, null::timestamptz as until
            from mqpg.subscription as c
            union all
            select o.subscription_id, o.filter, o.tags, o.replaced_at
            from mqpg.former_filter as o
        ) as f
        inner join mqpg.subscription as s on f.subscription_id = s.subscription_id
        where s.mode <> 'broadcast' or s.member <> ''
    ) as v
    inner join mqpg.topic as t on v.topic_id = t.topic_id
    cross join lateral generate_series(0, t.queues - 1) as q (queue_id)
    where v.filter is not null or v.tags is not null
) as p
inner join mqpg.consume_queue as c on p.topic_id = c.topic_id and p.queue_id = c.queue_id and c.subscription_id = 0
    and p.to_offset > c.base_offset and c.base_offset + c.n > p.from_offset
cross join lateral (
    select u.first_id, coalesce(u.deliver_id, u.first_id) as body, c.base_offset + u.start as first_offset,
        coalesce(c.starts[u.i + 1], c.n) - u.start as n
    from unnest(c.first_ids, c.starts, c.deliver_ids) with ordinality as u (first_id, start, deliver_id, i)
) as r
cross join lateral (
    select e.o, e.key, e.tag, e.headers, e.payload
    from mqpg.commit_log as b
    cross join lateral unnest(
        b.payloads[r.body % 1024 + 1:r.body % 1024 + r.n], b.keys[r.body % 1024 + 1:r.body % 1024 + r.n],
        b.tags[r.body % 1024 + 1:r.body % 1024 + r.n], b.headers[r.body % 1024 + 1:r.body % 1024 + r.n]
    ) with ordinality as e (payload, key, tag, headers, o)
    where b.batch_id = r.body / 1024
    union all
    select h.message_id - r.body + 1 as o, h.key, h.tag, h.headers, h.payload
    from mqpg.held as h
    where h.message_id >= r.body and h.message_id < r.body + r.n
        and not exists (
            select from mqpg.commit_log as b
            where b.batch_id = r.body / 1024
        )
) as m
where r.first_offset + m.o - 1 >= p.from_offset and r.first_offset + m.o - 1 < p.to_offset
    and case
        when p.tags is not null and m.tag = any(p.tags) is not true then true
        when p.filter is null then false
        else not mqpg._path_matches(
            m.payload, p.filter, jsonb_build_object('headers', m.headers, 'key', m.key, 'tag', m.tag))
    end;
-- subscription_id: Id of the subscription
-- message_id: Id of the message

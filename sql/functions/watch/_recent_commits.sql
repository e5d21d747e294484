-- How long the latest 200 committed half messages were undecided, from prepare() to the decision;
-- null if there are none. Delayed commits are not among them.
-- Locks: none. Cost: 200 entries of an index, and one index lookup for each.
create function mqpg._recent_commits(out commits bigint, out average_seconds float8, out longest_seconds float8)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    select count(*), avg(extract(epoch from r.at - h.born_at))::float8, max(extract(epoch from r.at - h.born_at))::float8
    into _recent_commits.commits, _recent_commits.average_seconds, _recent_commits.longest_seconds
    from (
        select o.message_id, o.at from mqpg.op_log o
        where o.op = 'c' and o.visible_at is null
        order by o.xid desc limit 200
    ) as r
    cross join lateral mqpg._half_by_id(r.message_id) as h;
end
$$;

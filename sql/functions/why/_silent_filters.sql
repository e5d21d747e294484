-- The groups whose filter or tags have chosen nothing lately, although messages came.
-- Locks: none.
-- Cost: that of _why_filter() for at most 100 groups, the newest ones, because a filter is wrong
-- when it is new; in mode broadcast for at most ten members of each.
create function mqpg._silent_filters() returns table (
    consumer_group text, topic text, filter text, tags text [], detail jsonb, remedy jsonb
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator', 'auditor', 'worker');
    return query
    select s.consumer_group, t.name, s.filter::text, s.tags, w.detail, w.remedy
    from (
        select g.* from mqpg.subscription g
        where g.member = '' and (g.filter is not null or g.tags is not null)
        order by g.subscription_id desc limit 100
    ) as s
    join mqpg.topic t on t.topic_id = s.topic_id
    cross join lateral (
        select f.detail, f.remedy
        from (
            select l as member from mqpg.subscription l
            where l.subscription_id = s.subscription_id or l.member_of = s.subscription_id
            order by l.subscription_id desc limit 10
        ) as k
        cross join lateral mqpg._why_filter(k.member, t) f
        limit 1
    ) as w
    order by s.consumer_group, t.name;
end
$$;

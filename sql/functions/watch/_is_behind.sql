-- Whether a subscription has messages that are not acknowledged. They may be in flight at another
-- consumer, whose lease may end or whose transaction may roll back, and no tick announces that. A
-- member that could not join its broadcast group yet counts too: the group was paused or being
-- changed, so the member has no position that could be behind.
-- Locks: none. Cost: that of the view subscription_lag for this subscription.
create function mqpg._is_behind(consumer_group text, topic text, consumer text) returns boolean
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_subscription(_is_behind.consumer_group, _is_behind.topic);
    return exists (
        select from mqpg._subscription_lag(_is_behind.consumer_group, _is_behind.topic) l where l.lag > 0
    ) or exists (
        select from mqpg.subscription g
        join mqpg.topic t on t.topic_id = g.topic_id
        where g.consumer_group = _is_behind.consumer_group and t.name = _is_behind.topic
            and g.mode = 'broadcast' and g.member = '' and not exists (
                select from mqpg.subscription m
                where m.member_of = g.subscription_id and m.member = _is_behind.consumer));
end
$$;

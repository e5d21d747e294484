-- The roles that hold a right, as role_right says: send or read (of a topic), produce (of a
-- producer group) or receive (of a subscription) with that id.
-- Locks: none. Cost: one look at role_right.
create function mqpg._roles_with_right(privilege text, object_id int) returns setof oid
language plpgsql stable as $$
begin
    case _roles_with_right.privilege
        when 'send' then
            return query
            select distinct r.role::oid from mqpg.role_right r
            where r.privilege = 'send' and (r.topic_id = _roles_with_right.object_id or r.topic_id is null);
        when 'produce' then
            return query
            select distinct r.role::oid from mqpg.role_right r
            where r.privilege = 'produce'
                and (r.producer_group_id = _roles_with_right.object_id or r.producer_group_id is null);
        when 'receive' then
            return query
            select distinct r.role::oid
            from mqpg.subscription s
            join mqpg.role_right r on r.subscription_id in (s.subscription_id, s.member_of)
                or (r.subscription_id is null and (r.topic_id = s.topic_id or r.topic_id is null)
                    and (r.consumer_group = s.consumer_group or r.consumer_group is null))
            where s.subscription_id = _roles_with_right.object_id and r.privilege = 'receive';
        else
            return query
            select distinct r.role::oid
            from mqpg.role_right r
            left join mqpg.subscription s on s.topic_id = _roles_with_right.object_id
                and (s.subscription_id = r.subscription_id or s.consumer_group = r.consumer_group)
            where r.privilege = 'receive' and (
                s.subscription_id is not null or (
                    r.subscription_id is null and r.consumer_group is null
                    and (r.topic_id = _roles_with_right.object_id or r.topic_id is null)));
    end case;
end
$$;

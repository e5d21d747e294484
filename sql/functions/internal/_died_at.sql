-- When a dead letter of a consumer group died, one that was redriven or discarded since, too; MQ001 where there was
-- none.
-- Locks: none. Cost: a few index lookups.
create function mqpg._died_at(subscription_id int, message_id bigint) returns timestamptz
language plpgsql stable as $$
declare
    v_at timestamptz;
begin
    select max(l.died_at) into v_at
    from (
        select d.subscription_id, d.died_at from mqpg.dead_letter d where d.message_id = _died_at.message_id
        union all
        select f.subscription_id, f.died_at from mqpg.former_letter f where f.message_id = _died_at.message_id
    ) as l
    join mqpg.subscription s on s.subscription_id = l.subscription_id
    where _died_at.subscription_id in (s.subscription_id, s.member_of);
    if v_at is null then
        raise exception using errcode = 'MQ001', message = format(
            'after_id %s names no dead letter of this subscription', _died_at.message_id);
    end if;
    return v_at;
end
$$;
comment on function mqpg._died_at(int, bigint) is 'Internal: when a dead letter died';

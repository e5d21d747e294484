-- The dead letter at which a page of dead_letters() ended: when it became one, and of which member
-- of a broadcast group it is (else ''). A dead letter that was redriven or discarded since counts
-- too.
-- Returns nulls for a null message_id.
-- Locks: none. Cost: a few index lookups.
-- Errors: MQ001 (no such dead letter, or several members have one and `consumer` is null).
create function mqpg._died_at(
    subscription_id int, message_id bigint, consumer text, out died_at timestamptz, out member text
)
language plpgsql stable as $$
declare
    v_members bigint;
begin
    if _died_at.message_id is null then
        return;
    end if;
    select max(l.died_at), max(s.member), count(distinct s.member)
    into _died_at.died_at, _died_at.member, v_members
    from (
        select d.subscription_id, d.died_at from mqpg.dead_letter d where d.message_id = _died_at.message_id
        union all
        select f.subscription_id, f.died_at from mqpg.former_dead_letter f where f.message_id = _died_at.message_id
    ) as l
    join mqpg.subscription s on s.subscription_id = l.subscription_id
    where _died_at.subscription_id in (s.subscription_id, s.member_of)
        and (_died_at.consumer is null or s.member = _died_at.consumer);
    if v_members = 0 then
        raise exception using errcode = 'MQ001', message = format(
            'after_id %s names no dead letter of this subscription', _died_at.message_id)
            || coalesce(format(', consumer %L', _died_at.consumer), '');
    elsif v_members > 1 then
        raise exception using errcode = 'MQ001', message = format(
            'after_id %s names dead letters of %s members: after_consumer must say whose', _died_at.message_id,
            v_members),
            hint = 'The next page starts after message_id and consumer of the last row.';
    end if;
end
$$;

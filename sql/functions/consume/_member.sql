-- The member of a broadcast group with that consumer name. A new member is made and begins at the
-- group's start, or at the oldest offset if that is later. Returns null while another call makes
-- it, changes the group or ends it, or keep() moves the topic's oldest offsets; the consumer then
-- joins at a later receive().
-- Locks: for a new member oldest offsets (see _lock_oldest()), 1836150841 with a hash of the name,
-- and the rows of the topic and the group, KEY SHARE (see _lock_group()). It waits for none of
-- them. Those of _cursor_slot() too.
-- Cost: one index lookup; for a new member one cursor row for each queue.
-- Errors: MQ005 (unsubscribed meanwhile), 40001.
create function mqpg._member(parent mqpg.subscription, queues int, consumer text) returns mqpg.subscription
language plpgsql as $$
declare
    v_member mqpg.subscription;
    v_slot int;
begin
    select s.* into v_member from mqpg.subscription s
    where s.topic_id = (_member.parent).topic_id and s.consumer_group = (_member.parent).consumer_group
        and s.member = _member.consumer;
    if found or not pg_try_advisory_xact_lock(
        1836150841, hashtext((_member.parent).subscription_id || ' ' || _member.consumer)) then
        return v_member;
    end if;
    if not mqpg._lock_oldest(false) then
        return null;
    end if;
    -- The topic before the group, in the order in which drop_topic() locks them.
    select t.queues into _member.queues from mqpg.topic t
    where t.topic_id = (_member.parent).topic_id for key share skip locked;
    if found then
        perform from mqpg.subscription s
        where s.subscription_id = (_member.parent).subscription_id for key share skip locked;
    end if;
    if not found then
        if exists (
            select from mqpg.subscription s where s.subscription_id = (_member.parent).subscription_id) then
            return null;
        end if;
        raise exception using errcode = 'MQ005', message = format(
            'consumer group %L was unsubscribed meanwhile', (_member.parent).consumer_group);
    end if;
    -- Look first, because a conflict would use up an id. The lock's former owner may have
    -- committed.
    insert into mqpg.subscription (
        consumer_group, topic_id, member, member_of, mode, start, filter, tags, max_attempts, retry_delay, on_failure,
        paused, receivers)
    select p.consumer_group, p.topic_id, _member.consumer, p.subscription_id, p.mode, p.start, p.filter, p.tags,
        p.max_attempts, p.retry_delay, p.on_failure, p.paused, p.receivers
    from mqpg.subscription p
    where p.subscription_id = (_member.parent).subscription_id
        and not exists (
            select from mqpg.subscription s
            where s.member_of = p.subscription_id and s.member = _member.consumer)
    on conflict do nothing
    returning * into v_member;
    if not found then
        select s.* into v_member from mqpg.subscription s
        where s.member_of = (_member.parent).subscription_id and s.member = _member.consumer;
        if not found then
            raise exception using errcode = '40001',
                message = 'the consumer joined the group concurrently: try the transaction again';
        end if;
        return v_member;
    end if;
    perform mqpg._require_subscription_id(v_member.subscription_id);
    v_slot := mqpg._cursor_slot();
    insert into mqpg.cursor (subscription_id, queue_id, slot, version, committed, claimed, at, action, claims)
    select v_member.subscription_id, q.queue_id, v_slot, 1, p.position, p.position, clock_timestamp(),
        mqpg._action('subscribe'), '{}'
    from generate_series(-1, _member.queues - 1) as q(queue_id)
    cross join lateral (select case
        when q.queue_id = -1 then 0
        else greatest(
            (mqpg._cursor((_member.parent).subscription_id, q.queue_id)).committed,
            mqpg._oldest(v_member.topic_id, q.queue_id, 0))
    end as position) as p;
    perform mqpg._note_starts(v_member.subscription_id, -1, _member.queues - 1);
    perform mqpg._await_older_queues(v_member);
    return v_member;
end
$$;

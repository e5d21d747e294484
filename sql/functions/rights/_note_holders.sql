-- Repeats role_right in the rows that the hot path reads: senders and readers of a topic, receivers
-- of its subscriptions, producers of a producer group; without ids, of all of them. Rows that are
-- right already are not written.
-- Locks: the rows that change; groups of mode broadcast so that no member joins meanwhile.
-- Cost: a look at role_right for each topic, subscription and group.
create function mqpg._note_holders(topic_id int default null, producer_group_id int default null) returns void
language plpgsql as $$
begin
    if _note_holders.producer_group_id is null then
        update mqpg.topic t set senders = n.senders, readers = n.readers
        from (
            select o.topic_id, mqpg._grantees('send', o.topic_id) as senders,
                mqpg._grantees('read', o.topic_id) as readers
            from mqpg.topic o
            where o.topic_id = _note_holders.topic_id or _note_holders.topic_id is null
        ) as n
        where t.topic_id = n.topic_id and (t.senders <> n.senders or t.readers <> n.readers);
        perform mqpg._lock_group(s) from mqpg.subscription s
        where s.topic_id = _note_holders.topic_id or _note_holders.topic_id is null;
        update mqpg.subscription s set receivers = n.receivers
        from (
            select o.subscription_id, mqpg._grantees('receive', o.subscription_id) as receivers
            from mqpg.subscription o
            where o.topic_id = _note_holders.topic_id or _note_holders.topic_id is null
        ) as n
        where s.subscription_id = n.subscription_id and s.receivers <> n.receivers;
    end if;
    if _note_holders.topic_id is null then
        update mqpg.producer_group g set producers = n.producers
        from (
            select o.producer_group_id, mqpg._grantees('produce', o.producer_group_id) as producers
            from mqpg.producer_group o
            where o.producer_group_id = _note_holders.producer_group_id or _note_holders.producer_group_id is null
        ) as n
        where g.producer_group_id = n.producer_group_id and g.producers <> n.producers;
    end if;
end
$$;

-- Subscribes a consumer group to a topic; repeated with equal arguments it changes nothing, with others it
-- raises MQ011. start 'earliest' is the queue's oldest offset, 'latest' its next one.
-- Locks: the new row. Cost: one cursor row a queue. Errors: MQ001, MQ002, MQ003, MQ011.
create function mqpg.subscribe(
    consumer_group text, topic text, mode text default 'exclusive', start text default 'earliest',
    max_attempts int default 16, retry_delay interval default '10 s'
) returns void
language plpgsql as $$
declare
    v_topic mqpg.topic;
    v_subscription mqpg.subscription;
begin
    perform mqpg._check_name('consumer_group', subscribe.consumer_group);
    v_topic := mqpg._topic(subscribe.topic);
    perform mqpg._check_one_of('mode', subscribe.mode, array['exclusive', 'pinned']);
    perform mqpg._check_one_of('start', subscribe.start, array['earliest', 'latest']);
    perform mqpg._check_range('max_attempts', subscribe.max_attempts, 1, 10000);
    perform mqpg._interval('retry_delay', subscribe.retry_delay, '0');
    -- A look first: a conflict would use up an id, and those that fit into a cursor lock's key are two million.
    insert into mqpg.subscription (consumer_group, topic_id, mode, start, max_attempts, retry_delay)
    select subscribe.consumer_group, v_topic.topic_id, subscribe.mode, subscribe.start,
        subscribe.max_attempts, subscribe.retry_delay
    where not exists (
        select from mqpg.subscription s
        where s.topic_id = v_topic.topic_id and s.consumer_group = subscribe.consumer_group)
    on conflict do nothing
    returning * into v_subscription;
    if v_subscription.subscription_id is not null then
        insert into mqpg.cursor (
            subscription_id, queue_id, slot, version, committed, claimed, at, action, claims)
        select v_subscription.subscription_id, q.queue_id, mqpg._cursor_slot(), 1, p.position, p.position,
            clock_timestamp(), 's', '{}'
        from generate_series(-1, v_topic.queues - 1) as q(queue_id),
            lateral (select case
                when q.queue_id = -1 then 0
                when subscribe.start = 'latest' then mqpg._tail(v_topic.topic_id, q.queue_id, 0)
                else mqpg._oldest(v_topic.topic_id, q.queue_id, 0)
            end) as p(position);
        return;
    end if;
    v_subscription := mqpg._subscription(subscribe.consumer_group, subscribe.topic);
    if (v_subscription.mode, v_subscription.start, v_subscription.max_attempts, v_subscription.retry_delay)
        is distinct from (subscribe.mode, subscribe.start, subscribe.max_attempts, subscribe.retry_delay) then
        raise exception using errcode = 'MQ011', message = format(
            'consumer group %L is subscribed to %L with other arguments', subscribe.consumer_group, subscribe.topic),
            hint = 'alter_subscription() changes one.';
    end if;
end
$$;
comment on function mqpg.subscribe(text, text, text, text, int, interval)
    is 'Subscribe a consumer group to a topic; idempotent';

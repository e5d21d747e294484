-- Lists the dead letters of a subscription, the latest first. Of a broadcast group it lists those
-- of all members.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   max_messages: length of a page, 1 to 100000; default 100.
--   after_id: message id of the last row of the previous page, which may be gone meanwhile; null
--       (default): the first page.
--   message_ids: list only these; null (default): all.
--   filter: a jsonpath that chooses dead letters, as a subscription's filter does; null (default):
--       all.
--   after_consumer: consumer of the last row of the previous page; needed for a broadcast group
--       where several members have a dead letter of that message; default null.
-- Returns: attempts is the number of deliveries, reason that of the last one, and history all that
-- is known of each (attempt, delivered_at, consumer, failed_at, reason).
-- Locks: none.
-- Cost: one row of the commit log for each dead letter that is examined. Without a filter that is a
-- page of each member, read from an index; with one, all of them are sorted.
-- Errors: MQ001 (argument), MQ002 (name), MQ003 (unknown topic), MQ005 (unknown subscription),
-- MQ014 (a body is missing), MQ020 (filter).
create function mqpg.dead_letters(
    consumer_group text, topic text, max_messages int default 100, after_id bigint default null,
    message_ids bigint [] default null, filter jsonpath default null, after_consumer text default null
) returns table (
    message_id bigint, queue_id int, key text, payload json, attempts int, reason text, died_at timestamptz,
    headers jsonb, tag text, history jsonb, consumer text
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_group mqpg.subscription := mqpg._require_subscription(dead_letters.consumer_group, dead_letters.topic);
    v_page record;
    v_dead record;
    v_body record;
    v_left int := dead_letters.max_messages;
begin
    perform mqpg._require_range('max_messages', dead_letters.max_messages, 1, 100000);
    perform mqpg._require_dead_letter_choice(dead_letters.message_ids, dead_letters.filter);
    if dead_letters.after_id is null and dead_letters.after_consumer is not null then
        raise exception using errcode = 'MQ001', message = 'after_consumer is allowed only together with after_id';
    end if;
    v_page := mqpg._died_at(v_group.subscription_id, dead_letters.after_id, dead_letters.after_consumer);
    for v_dead in
        -- Without a filter, each member contributes at most one page, read from the index backward:
        -- all of them would be sorted otherwise. One row more, because of two members that have the
        -- message of the page before.
        select d.*, s.member from mqpg.subscription s
        cross join lateral (
            select e.* from mqpg.dead_letter e
            where e.subscription_id = s.subscription_id
                and (e.died_at, e.message_id) <= (
                    coalesce(v_page.died_at, 'infinity'), coalesce(dead_letters.after_id, 9223372036854775807))
                and (dead_letters.message_ids is null or e.message_id = any(dead_letters.message_ids))
            order by e.died_at desc, e.message_id desc
            limit case when dead_letters.filter is null then dead_letters.max_messages + 1 end
        ) as d
        where v_group.subscription_id in (s.subscription_id, s.member_of)
            and (dead_letters.after_id is null
                or (d.died_at, d.message_id, s.member) < (v_page.died_at, dead_letters.after_id, v_page.member))
        order by d.died_at desc, d.message_id desc, s.member desc
    loop
        select m.key, m.tag, m.headers, m.payload into v_body from mqpg._message(v_dead.deliver_id) m;
        if not found then
            raise exception using errcode = 'MQ014', message = format(
                'the body of dead letter %s of consumer group %L on topic %L is missing', v_dead.message_id,
                dead_letters.consumer_group, dead_letters.topic);
        end if;
        continue when dead_letters.filter is not null and not mqpg._matches_filter(
            dead_letters.filter, v_body.key, v_body.tag, v_body.headers, v_body.payload);
        message_id := v_dead.message_id;
        queue_id := v_dead.queue_id;
        key := v_body.key;
        payload := v_body.payload;
        attempts := v_dead.attempts;
        reason := v_dead.reason;
        died_at := v_dead.died_at;
        headers := v_body.headers;
        tag := v_body.tag;
        history := v_dead.history;
        consumer := nullif(v_dead.member, '');
        return next;
        v_left := v_left - 1;
        exit when v_left = 0;
    end loop;
end
$$;

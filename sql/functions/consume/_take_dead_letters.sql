-- Takes dead letters out and returns them: all of a consumer group, those of message_ids, or those
-- that match a filter; the lowest message ids first, up to max_messages. They move to
-- former_dead_letter with their fate. Each is taken by one caller: a second one waits for the first
-- and no longer finds it.
-- Locks: the rows of the dead letters, in the order of their message ids.
-- Cost: one delete and one insert for each dead letter; with a filter one row of the commit log for
-- each dead letter read.
-- Errors: MQ001, MQ003 (unknown topic), MQ005 (not subscribed), MQ020 (filter).
create function mqpg._take_dead_letters(
    consumer_group text, topic text, message_ids bigint [], filter jsonpath, max_messages int, fate text
) returns setof mqpg.dead_letter
language plpgsql as $$
declare
    v_group mqpg.subscription := mqpg._subscription(_take_dead_letters.consumer_group, _take_dead_letters.topic);
begin
    perform mqpg._require_dead_letter_choice(_take_dead_letters.message_ids, _take_dead_letters.filter);
    if _take_dead_letters.max_messages is not null then
        perform mqpg._require_range('max_messages', _take_dead_letters.max_messages, 1, 2147483647);
    end if;
    return query
    with chosen as materialized (
        select d.subscription_id, d.message_id
        from mqpg.dead_letter d
        where d.subscription_id in (
                select s.subscription_id from mqpg.subscription s
                where v_group.subscription_id in (s.subscription_id, s.member_of))
            and (_take_dead_letters.message_ids is null or d.message_id = any(_take_dead_letters.message_ids))
            and (_take_dead_letters.filter is null or (
                select mqpg._matches_filter(_take_dead_letters.filter, m.key, m.tag, m.headers, m.payload)
                from mqpg._message(d.deliver_id) m))
        order by d.message_id, d.subscription_id
        limit _take_dead_letters.max_messages
        for update of d
    ),
    taken as (
        delete from mqpg.dead_letter d using chosen c
        where d.subscription_id = c.subscription_id and d.message_id = c.message_id
        returning d.*
    ),
    noted as (
        insert into mqpg.former_dead_letter (subscription_id, message_id, attempts, reason, history, died_at, fate)
        select t.subscription_id, t.message_id, t.attempts, t.reason, t.history, t.died_at, _take_dead_letters.fate
        from taken t
    )
    select t.* from taken t;
end
$$;

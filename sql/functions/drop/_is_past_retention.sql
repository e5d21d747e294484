-- Whether the longest retention of a topic with messages in a closed segment is over.
-- Locks: none.
-- Cost: negligible when all retentions or none are over; else one index lookup per topic for a tick
-- segment, and for a log segment its rows until one of a topic with a longer retention is found.
create function mqpg._is_past_retention(segment mqpg.segment) returns boolean
language plpgsql stable as $$
declare
    v_longer int [] := array(
        select t.topic_id from mqpg.topic t where _is_past_retention.segment.closed_at + t.retention > clock_timestamp());
begin
    if v_longer = '{}' then
        return true;
    end if;
    if not exists (select from mqpg.topic t where t.topic_id <> all(v_longer)) then
        return false;
    end if;
    if _is_past_retention.segment.family = 'tick' then
        return not exists (
            select from unnest(v_longer) as t(topic_id)
            where exists (
                select from mqpg.consume_queue c
                where c.topic_id = t.topic_id and c.tick_id >= _is_past_retention.segment.lower_bound::bigint
                    and c.tick_id < _is_past_retention.segment.upper_bound::bigint));
    end if;
    return not exists (
        select from mqpg.commit_log l
        where l.topic_id = any(v_longer) and l.batch_id >= _is_past_retention.segment.lower_bound::bigint
            and l.batch_id < _is_past_retention.segment.upper_bound::bigint);
end
$$;

-- Which of these messages of a topic the broker has dropped by retention: their bodies are gone, and
-- they neither wait for anything nor are dead letters. A message that it never had, or lost, is none.
-- Locks: none. Cost: one or two index lookups for each message.
create function mqpg._dropped_among(consumer_group text, topic text, message_ids bigint []) returns setof bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked mqpg.subscription := mqpg._require_subscription(_dropped_among.consumer_group, _dropped_among.topic);
    v_first bigint := (select min(u.id) / 1024 from unnest(_dropped_among.message_ids) as u(id));
    v_last bigint := (select max(u.id) / 1024 from unnest(_dropped_among.message_ids) as u(id));
begin
    return query
    select u.id from unnest(_dropped_among.message_ids) as u(id)
    where exists (
            select from mqpg.segment s
            where s.family = 'log' and (s.body_dropped_at is not null or s.left_out <> '{}')
                and u.id / 1024 >= s.lower_bound::bigint and u.id / 1024 < s.upper_bound::bigint)
        and not exists (
            select from mqpg.commit_log l where l.batch_id = u.id / 1024 and l.batch_id between v_first and v_last)
        and not exists (select from mqpg.held h where h.message_id = u.id);
end
$$;

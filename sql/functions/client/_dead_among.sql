-- Which of these messages are dead letters of the group or were discarded as such, or with `former`
-- also were redriven.
-- Locks: none. Cost: one or two index lookups for each message.
create function mqpg._dead_among(
    consumer_group text, topic text, message_ids bigint [], former boolean default false
) returns setof bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_id int := (mqpg._require_subscription(_dead_among.consumer_group, _dead_among.topic)).subscription_id;
begin
    return query
    select u.id from unnest(_dead_among.message_ids) as u(id)
    where exists (select from mqpg.dead_letter d where d.subscription_id = v_id and d.message_id = u.id)
        or exists (
            select from mqpg.former_dead_letter f
            where f.subscription_id = v_id and f.message_id = u.id and (_dead_among.former or f.fate = 'discarded'));
end
$$;

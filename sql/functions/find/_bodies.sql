-- What is stored of messages in any state: their key and their payload, the delivered one if a
-- commit replaced it. One row for each that is stored, with the state of find_by_key(). Those of
-- topics that the caller may not read are left out.
-- Locks: none. Cost: a few index lookups for each message.
create function mqpg._bodies(message_ids bigint []) returns table (
    message_id bigint, topic text, key text, tag text, headers jsonb, payload json, state text
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_readable bigint[];
begin
    v_readable := array(
        select i.id from unnest(_bodies.message_ids) as i(id)
        left join lateral mqpg._message(i.id) m on true
        where mqpg._has_right('read', m.topic_id));
    if v_readable = '{}' and _bodies.message_ids <> '{}' then
        perform mqpg._refuse('may not read these messages', 'grant_receive', '{"consumer_group": null, "topic": null}');
    end if;
    return query
    select i.id, t.name, m.key, m.tag, m.headers,
        case when s.body_id = i.id then m.payload else (select b.payload from mqpg._message(s.body_id) b) end,
        s.state
    from unnest(v_readable) as i(id)
    cross join lateral mqpg._message(i.id) m
    join mqpg.topic t on t.topic_id = m.topic_id
    cross join lateral mqpg._message_state(i.id, m.topic_id, m.queue_id, m.kind, m.xid) s;
end
$$;

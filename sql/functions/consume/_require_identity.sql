-- The identity of a topic: broker and topic id. Raises if another one is expected, because the
-- offsets of a topic say nothing about a later one of the same name.
-- Locks: none. Cost: one row.
-- Errors: MQ003.
create function mqpg._require_identity(topic mqpg.topic, expected text) returns text
language plpgsql stable as $$
declare
    v_identity text := (select format('%s.%s', b.broker_id, (_require_identity.topic).topic_id) from mqpg.broker b);
begin
    if _require_identity.expected <> v_identity then
        raise exception using errcode = 'MQ003', message = format(
            'topic %L is not the one that the offsets belong to: it was dropped and created again, or this is '
            'another broker', (_require_identity.topic).name),
            hint = 'Begin with a new checkpoint.';
    end if;
    return v_identity;
end
$$;

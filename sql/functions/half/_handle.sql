-- The handle of a half message: broker, incarnation when it was prepared, message id and nonce. It
-- is opaque to all others, and its text must never change, because it is the key of ledgers and
-- fences. `secret` is the secret of the record batch.
-- Locks: none. Cost: one hash (inlined).
create function mqpg._handle(broker_id text, incarnation int, message_id bigint, secret uuid) returns text
language sql stable as $$
    select concat_ws('.', _handle.broker_id, _handle.incarnation, _handle.message_id, '')
        || encode(mqpg._handle_nonce(_handle.secret, _handle.message_id), 'hex')
$$;

-- The handle of a half message of this broker.
-- It is plpgsql, not sql, so that its plan is kept. The query has no arguments in it, because with
-- them the planner prefers a plan of its own for each call.
-- Locks: none. Cost: one lookup in a table of one row.
create function mqpg._handle(incarnation int, message_id bigint, secret uuid) returns text
language plpgsql stable as $$
begin
    return mqpg._handle(
        (select b.broker_id from mqpg.broker b), _handle.incarnation, _handle.message_id, _handle.secret);
end
$$;

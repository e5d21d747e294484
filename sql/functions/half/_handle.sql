-- The handle of a half message: broker, incarnation at its prepare, message id and nonce; opaque to everybody
-- else. It must be the same text for ever, for it is the key of ledgers and fences.
-- Locks: none. Cost: none to speak of (inlined).
create function mqpg._handle(broker_id text, incarnation int, message_id bigint, nonce uuid) returns text
language sql immutable as $$
    select _handle.broker_id || '.' || _handle.incarnation::text || '.' || _handle.message_id::text || '.'
        || replace(_handle.nonce::text, '-', '')
$$;
comment on function mqpg._handle(text, int, bigint, uuid) is 'Internal: handle of a half message';

-- The same for a half of this broker.
-- Locks: none. Cost: one lookup in a table of one row. (plpgsql, not sql: its plan is kept; no arguments inside
-- the query, else the planner finds a plan of its own for each call worth while.)
create function mqpg._handle(incarnation int, message_id bigint, nonce uuid) returns text
language plpgsql stable as $$
begin
    return mqpg._handle(
        (select b.broker_id from mqpg.broker b), _handle.incarnation, _handle.message_id, _handle.nonce);
end
$$;
comment on function mqpg._handle(int, bigint, uuid) is 'Internal: handle of a half message of this broker';

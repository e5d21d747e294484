-- The handle of a half message: broker, incarnation, message id and nonce. Opaque to everybody else.
-- Locks: none. Cost: one lookup in a table of one row. (plpgsql, not sql: its plan is kept; no arguments inside
-- the query, else the planner finds a plan of its own for each call worth while.)
create function mqpg._handle(message_id bigint, nonce uuid) returns text
language plpgsql stable as $$
begin
    return (select b.broker_id || '.' || b.incarnation || '.' from mqpg.broker b)
        || _handle.message_id || '.' || replace(_handle.nonce::text, '-', '');
end
$$;
comment on function mqpg._handle(bigint, uuid) is 'Internal: handle of a half message';

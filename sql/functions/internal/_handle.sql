-- The handle of a half message: broker, incarnation at its prepare, message id and nonce; opaque to everybody
-- else. It must be the same text for ever, for it is the key of ledgers and fences.
-- Locks: none. Cost: one lookup in a table of one row. (plpgsql, not sql: its plan is kept; no arguments inside
-- the query, else the planner finds a plan of its own for each call worth while.)
create function mqpg._handle(incarnation int, message_id bigint, nonce uuid) returns text
language plpgsql stable as $$
begin
    return (select b.broker_id from mqpg.broker b)
        || '.' || _handle.incarnation || '.' || _handle.message_id || '.' || replace(_handle.nonce::text, '-', '');
end
$$;
comment on function mqpg._handle(int, bigint, uuid) is 'Internal: handle of a half message';

-- The codes of several actions, for `c.action = any(mqpg._actions('ack', 'nack'))`. See _action().
-- Locks: none. Cost: none.
create function mqpg._actions(variadic words text []) returns "char" []
language sql immutable as $$
    select array(select mqpg._action(w.word) from unnest(_actions.words) as w(word))
$$;

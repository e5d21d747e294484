-- The value of a server-wide setting, as text.
-- Locks: none. Cost: one index lookup in a tiny table.
create function mqpg._setting(name text) returns text
language sql stable as $$
    select s.value from mqpg.settings s where s.name = _setting.name
$$;

-- The settings of the session that an ordinary role can change.
-- Locks: none. Cost: about 1 ms.
create function mqpg._session_settings() returns jsonb
language sql volatile as $$
    select jsonb_object_agg(s.name, s.setting) from pg_catalog.pg_settings s where s.context in ('user', 'superuser')
$$;
comment on function mqpg._session_settings() is 'Internal: settings that a function could change';

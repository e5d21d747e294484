-- The parts of why()'s detail that the caller may not see: an auditor reads no key and no tag of a
-- message, unless it also is an operator or may read the topic.
-- Locks: none. Cost: two looks at role_right.
create function mqpg._why_hidden(topic_id int) returns text []
language sql stable as $$
    select case
        when mqpg._has_privilege('operator') or mqpg._has_right('read', _why_hidden.topic_id) then '{}'::text []
        else '{key,tag}'
    end
$$;

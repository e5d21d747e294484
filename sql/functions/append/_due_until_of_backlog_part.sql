-- Cuts a backlog of due messages: it returns the time up to which about max_messages become due.
-- It is plpgsql, not sql, so that its plan is kept.
-- Locks: none. Cost: an index scan of at most max_messages entries.
create function mqpg._due_until_of_backlog_part(due_from timestamptz, due_until timestamptz, max_messages int)
    returns timestamptz
language plpgsql stable as $$
begin
    return coalesce(
        (select d.visible_at from mqpg.delayed d
         where d.visible_at > _due_until_of_backlog_part.due_from
             and d.visible_at <= _due_until_of_backlog_part.due_until
         order by d.visible_at offset _due_until_of_backlog_part.max_messages - 1 limit 1),
        _due_until_of_backlog_part.due_until);
end
$$;

-- Whether the caller may use what these roles may use: senders, readers, receivers or producers of
-- a row that the calling function reads anyway. False also means that the note may be out of date,
-- as it is in a new topic and after a restore: the caller then asks _holds().
-- Locks: none. Cost: negligible; the planner puts it in place of the call, and in a condition of
-- plpgsql no query is run.
create function mqpg._may(grantees mqpg.grantee []) returns boolean
language sql stable as $$
    select mqpg._is_owner() or mqpg._names_role(_may.grantees[1]) or mqpg._names_role(_may.grantees[2])
        or case when cardinality(_may.grantees) > 2 then mqpg._is_among(_may.grantees[3:]) else false end
$$;
comment on function mqpg._may(mqpg.grantee []) is 'Internal: whether the caller may, by the roles noted in a row';

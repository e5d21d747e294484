-- The schema of mqpg. Topics, groups and handles are rows in its tables, never identifiers.
-- `mqpg migrate` makes it before, so that it belongs to the owner (install/owner.sql).
do $mqpg$
begin
    if to_regnamespace('mqpg') is null then
        create schema mqpg;
    end if;
end $mqpg$;
comment on schema mqpg is 'mqpg: a transactional message queue';

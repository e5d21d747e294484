-- Refuses a database whose encoding is not UTF8. JSON and names may hold any character, and in
-- another encoding some of them could be neither stored nor read.
-- Locks: none. Cost: negligible.
-- Errors: 0A000.
do $mqpg$
begin
    if current_setting('server_encoding') <> 'UTF8' then
        raise exception using
            errcode = 'feature_not_supported',
            message = format('mqpg needs a database with encoding UTF8; %I has %s', current_database(),
                current_setting('server_encoding')),
            hint = 'Create one with: create database NAME encoding ''UTF8'' template template0';
    end if;
end $mqpg$;

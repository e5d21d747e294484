-- Raises in a database that has the tables of mqpg without their rows, as a dump of the schema alone
-- makes it, or one without the data of mqpg. What is stored there would never be delivered.
-- Locks: none. Cost: two rows read.
-- Errors: MQ016.
create function mqpg._require_rows() returns void
language plpgsql stable as $$
begin
    if not exists (select from mqpg.broker) or not exists (select from mqpg.tick) then
        raise exception using errcode = 'MQ016',
            message = 'this database has the tables of mqpg without their rows',
            detail = 'A dump of the schema alone, or one without the data of mqpg, was restored.',
            hint = case
                when exists (select from mqpg.commit_log) then
                    'There are messages in mqpg.commit_log: restore the whole dump again, into an empty database.'
                else 'They hold no message. Make them again: drop schema if exists mqpg, mqpg_audit, mqpg_retired '
                    'cascade, then mqpg migrate.'
            end;
    end if;
end
$$;

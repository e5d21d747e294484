-- PGMQ, whose queue `mqpg_oplog` carries the half messages that are overdue, and nothing else (protocol T3).
-- Left alone where it is; made as an extension where the server has that; else from the bundled SQL, which
-- `mqpg migrate` puts in the place of the marker below. Locks: those of its own DDL. Once per database.
do $mqpg$
declare
    v_bundled text := $mqpg_pgmq_bundled$/* mqpg: bundled PGMQ SQL */$mqpg_pgmq_bundled$;
begin
    if to_regprocedure('pgmq.send(text, jsonb, jsonb, integer)') is null then
        if exists (select from pg_available_extensions where name = 'pgmq') then
            create extension pgmq;
        elsif v_bundled like '%pgmq.message_record%' then
            execute v_bundled;
        else
            raise exception using
                errcode = 'feature_not_supported',
                message = 'PGMQ is neither installed nor available as an extension on this server',
                hint = 'Install through "mqpg migrate" or with the script of "mqpg migrate sql": they bring it along.';
        end if;
    end if;
    if to_regprocedure('pgmq.read(text, integer, integer, jsonb)') is null then
        raise exception using
            errcode = 'feature_not_supported',
            message = 'the PGMQ of this database is too old: pgmq.read(queue_name, vt, qty, conditional) is missing',
            hint = 'Update it (alter extension pgmq update) to 1.5 or newer.';
    end if;
    if not exists (select from pgmq.list_queues() where queue_name = 'mqpg_oplog') then
        perform pgmq.create('mqpg_oplog');
    end if;
end $mqpg$;

-- Reads ask for one producer group at a time, so that one dead group does not slow the others.
create index if not exists q_mqpg_oplog_producer_group on pgmq.q_mqpg_oplog ((message ->> 'producer_group'), vt);
comment on index pgmq.q_mqpg_oplog_producer_group is 'Overdue half messages of one producer group (mqpg)';

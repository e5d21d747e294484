-- PGMQ, the message queue extension whose queue `mqpg_oplog` holds the half messages that are
-- overdue (protocol T3). mqpg uses PGMQ for nothing else.
-- An installed PGMQ is used as it is. Otherwise this script creates the extension where the server
-- offers it, and else runs the bundled SQL, which `mqpg migrate` inserts in place of the marker
-- below.
-- Locks: those of its own DDL.
-- Cost: runs once per database.
-- Errors: 0A000 (PGMQ is missing or too old).
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
                hint = 'Install with "mqpg migrate" or with the script of "mqpg migrate sql", which include PGMQ.';
        end if;
    end if;
    if to_regprocedure('pgmq.read(text, integer, integer, jsonb)') is null then
        raise exception using
            errcode = 'feature_not_supported',
            message = 'PGMQ in this database is too old: pgmq.read(queue_name, vt, qty, conditional) is missing',
            hint = 'Update PGMQ to 1.5 or newer: alter extension pgmq update.';
    end if;
    if not exists (select from pgmq.list_queues() where queue_name = 'mqpg_oplog') then
        perform pgmq.create('mqpg_oplog');
    end if;
end $mqpg$;

-- Each read asks for one producer group, so that a group whose checker fails does not slow the
-- others.
create index if not exists q_mqpg_oplog_producer_group on pgmq.q_mqpg_oplog ((message ->> 'producer_group'), vt);
comment on index pgmq.q_mqpg_oplog_producer_group is 'Overdue half messages of one producer group (mqpg)';

-- check_wait(), rearm() and settle() name one half message, in the queue or in its archive.
create index if not exists q_mqpg_oplog_message on pgmq.q_mqpg_oplog (((message ->> 'message_id')::bigint));
comment on index pgmq.q_mqpg_oplog_message is 'Overdue half messages by id (mqpg)';
create index if not exists a_mqpg_oplog_producer_group on pgmq.a_mqpg_oplog ((message ->> 'producer_group'));
comment on index pgmq.a_mqpg_oplog_producer_group is 'Parked half messages of one producer group (mqpg)';
create index if not exists a_mqpg_oplog_message on pgmq.a_mqpg_oplog (((message ->> 'message_id')::bigint));
comment on index pgmq.a_mqpg_oplog_message is 'Parked half messages by id (mqpg)';

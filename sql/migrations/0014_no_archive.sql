-- Drops the notes about the files that `mqpg archive` wrote, a command that is gone. The files stay,
-- and the manifest beside each says what its note did. The column topic.archive goes in the next
-- release. Nothing waits for files any more, so while a topic asks for them, this raises an error.
-- breaking: no
do $$
declare
    v_topics text := (select string_agg(t.name, ', ' order by t.name) from mqpg.topic t where t.archive);
begin
    if v_topics is not null then
        raise exception using errcode = 'MQ018', message = format(
            'mqpg archive is gone, and these topics keep their segments for it: %s', v_topics),
            hint = 'With the release before run mqpg audit --archive once more, and keep its report. Let a group '
                'read their messages into files if you need them. Then call alter_topic(archive => false).';
    end if;
end $$;
drop view if exists mqpg.audit_archived_segment;
drop table if exists mqpg.archived_segment;
comment on column mqpg.topic.archive is 'Not used; the next release drops it';

-- Commits half messages and the number of the batch that they are in one transaction, for writers that
-- may repeat their newest batch, such as a stream of Spark. If the newest batch of the writer has that
-- number, it was committed before, and these are rolled back instead. Either all are committed or none.
-- An older batch raises, because only the number of the newest one is stored: it may be a repetition,
-- or hold other messages, as after a restore of the checkpoint. It stays undecided.
-- Arguments:
--   producer_group: the group that they were prepared for.
--   handles: the handles from prepare(); none may be null.
--   writer: names who numbers the batches, with the characters of a topic's name; null (default):
--       nobody repeats this batch, so nothing is noted.
--   batch_no: 0 or greater, ascending; required with a writer.
-- Returns: true if they were committed, false if they were rolled back.
-- Locks: the writer's row, and the decisions' keys in ascending order; waits for a call of the same
-- writer, and for other decisions about the half messages.
-- Cost: that of commit_batch(), and one row.
-- Errors: MQ001 (argument), MQ002 (name), MQ004 (unknown group), MQ018 (one is decided already, or
-- unknown, or the writer has committed a later batch: nothing was committed).
create function mqpg.commit_once(
    producer_group text, handles text [], writer text default null, batch_no bigint default null
) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_group mqpg.producer_group := mqpg._require_producer_group(commit_once.producer_group);
    v_is_new boolean := true;
    v_failed record;
begin
    if commit_once.writer is not null then
        perform mqpg._require_name('writer', commit_once.writer);
        perform mqpg._require_range('batch_no', commit_once.batch_no, 0, 9223372036854775807);
        insert into mqpg.batch_writer as w (producer_group_id, writer, batch_no)
        values (v_group.producer_group_id, commit_once.writer, commit_once.batch_no)
        on conflict on constraint batch_writer_pkey do update
        set batch_no = excluded.batch_no, at = clock_timestamp()
        where w.batch_no < excluded.batch_no;
        v_is_new := found;
    elsif commit_once.batch_no is not null then
        raise exception using errcode = 'MQ001', message = 'batch_no must be null without a writer';
    end if;
    if not v_is_new then
        if exists (
            select from mqpg.batch_writer w
            where w.producer_group_id = v_group.producer_group_id and w.writer = commit_once.writer
                and w.batch_no > commit_once.batch_no)
        then
            raise exception using errcode = 'MQ018', message = format(
                'writer %L has committed a later batch than %s, so whether this one was committed is not known',
                commit_once.writer, commit_once.batch_no),
                hint = 'A stream: its checkpoint is an old one, begin with a new one. A job: name another writer.';
        end if;
        perform from mqpg._decide_batch(commit_once.handles, 'b', 'producer');
        return false;
    end if;
    select count(*) as n, min(d.handle) as handle, min(d.outcome::text) as outcome into v_failed
    from mqpg._decide_batch(commit_once.handles, 'c', 'producer') d
    where d.outcome <> 'committed';
    if v_failed.n > 0 then
        raise exception using errcode = 'MQ018', message = format(
            '%s of %s half messages could not be committed, so none was: %s is %s', v_failed.n,
            cardinality(commit_once.handles), v_failed.handle, v_failed.outcome);
    end if;
    return true;
end
$$;

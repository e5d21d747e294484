-- Notes that a range of a closed table is in a file. The file was read back, and n and digest are
-- what it holds. They must be what the table holds now, so a file that differs is never noted. From
-- then on keep() may drop the range if a topic asks for the archive.
-- Arguments:
--   table_name: commit_log, op_log, consume_queue, tick, cursor or delayed.
--   lower_bound, upper_bound: the range of the partition key, the upper one exclusive.
--   location: the file, relative to the folder of the archive. The server cannot see whether it is
--       there: it believes its worker.
--   n: the number of rows in the file.
--   digest: the sum of hashtextextended(row(columns)::text, 0) over its rows, with the columns of
--       the audit view in order.
-- Locks: ACCESS SHARE on the table and the segment's row, until commit.
-- Cost: reads the range once.
-- Errors: MQ001 (argument), MQ018 (the file differs, or there is no such closed range that is not
-- archived yet), MQ025.
create function mqpg.note_archived(
    table_name text, lower_bound text, upper_bound text, location text, n bigint, digest numeric
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp
set timezone = 'UTC' set datestyle = 'ISO' set intervalstyle = 'postgres' as $$
declare
    v_may boolean := mqpg._require_privilege('worker');
    v_columns text [];
    v_key text;
    v_n bigint;
    v_digest numeric;
    v_segment mqpg.segment;
    v_ids int8range;
    v_times tstzrange;
begin
    if num_nulls(
        note_archived.table_name, note_archived.lower_bound, note_archived.upper_bound, note_archived.location,
        note_archived.n, note_archived.digest) > 0 then
        raise exception using errcode = 'MQ001', message = 'no argument may be null';
    elsif note_archived.location ~ '^/|(^|/)[.][.](/|$)' then
        raise exception using errcode = 'MQ001',
            message = 'location must be a path below the folder of the archive, without ..';
    elsif not exists (
        select from unnest(array['log', 'tick', 'cursor', 'delayed']) as x(family)
        cross join lateral mqpg._archived_tables(x.family) f where f.parent = note_archived.table_name
    ) then
        raise exception using errcode = 'MQ001', message = format(
            'table_name must be a table that is archived, not %L', note_archived.table_name);
    end if;
    v_key := mqpg._partition_column(note_archived.table_name);
    select array_agg(a.attname::text order by a.attnum) into v_columns
    from pg_attribute a
    where a.attrelid = to_regclass('mqpg.audit_' || note_archived.table_name) and a.attnum > 0 and not a.attisdropped;
    begin
        if note_archived.table_name = 'delayed' then
            v_times := tstzrange(note_archived.lower_bound::timestamptz, note_archived.upper_bound::timestamptz);
        else
            v_ids := int8range(note_archived.lower_bound::bigint, note_archived.upper_bound::bigint);
        end if;
        if isempty(v_times) or isempty(v_ids) then
            raise exception using errcode = 'MQ001', message = 'lower_bound must be below upper_bound';
        end if;
        execute format(
            'select count(*), coalesce(sum(hashtextextended(row(%1$s)::text, 0)), 0) from mqpg.%2$I q'
            ' where q.%3$I >= %4$L and q.%3$I < %5$L',
            (select string_agg(format('q.%I', c.name), ', ' order by c.place)
                from unnest(v_columns) with ordinality as c(name, place)),
            'audit_' || note_archived.table_name, v_key, note_archived.lower_bound, note_archived.upper_bound)
        into v_n, v_digest;
    exception when data_exception then
        raise exception using errcode = 'MQ001', message = format(
            'lower_bound and upper_bound must be values of %s.%s, the lower one first', note_archived.table_name, v_key);
    end;
    -- After the table was read and so locked: a release in between is seen here, later ones wait.
    select s.* into v_segment
    from mqpg.segment s
    where (s.family, s.segment_no) in (
        select a.family, a.segment_no
        from mqpg._to_archive() a
        where case
            when a.table_name <> note_archived.table_name then false
            when v_ids is null then tstzrange(a.from_bound::timestamptz, a.to_bound::timestamptz) @> v_times
            else int8range(a.from_bound::bigint, a.to_bound::bigint) @> v_ids
        end)
    for update;
    -- While this call waited for the row another one may have noted the range.
    if not found or not exists (
        select from mqpg._unarchived(
            note_archived.table_name, coalesce(lower(v_ids)::text, lower(v_times)::text),
            coalesce(upper(v_ids)::text, upper(v_times)::text)) u
        where case
            when v_ids is null then tstzrange(u.from_bound::timestamptz, u.to_bound::timestamptz) = v_times
            else int8range(u.from_bound::bigint, u.to_bound::bigint) = v_ids
        end)
    then
        raise exception using errcode = 'MQ018', message = format(
            'no closed part of %s that is not archived has all of %s to %s', note_archived.table_name,
            note_archived.lower_bound, note_archived.upper_bound);
    elsif (v_n, v_digest) is distinct from (note_archived.n, note_archived.digest) then
        raise exception using errcode = 'MQ018', message = format(
            '%s from %s to %s has %s rows with digest %s, and the archive has %s with %s', note_archived.table_name,
            note_archived.lower_bound, note_archived.upper_bound, v_n, v_digest, note_archived.n, note_archived.digest);
    end if;
    insert into mqpg.archived_segment (
        table_name, lower_bound, upper_bound, family, segment_no, incarnation, location, columns, n, digest,
        left_out, archived_by)
    select note_archived.table_name, coalesce(lower(v_ids)::text, lower(v_times)::text),
        coalesce(upper(v_ids)::text, upper(v_times)::text), v_segment.family,
        v_segment.segment_no, b.incarnation, note_archived.location, v_columns, v_n, v_digest,
        v_segment.left_out, mqpg._caller()
    from mqpg.broker b;
    update mqpg.segment s set blocked_since = null      -- it no longer waits for the archive
    where s.family = v_segment.family and s.segment_no = v_segment.segment_no and s.leaving is null
        and s.blocked_since is not null;
end
$$;

-- What a revision of Alembic's branch mqpg runs: one statement, so that every driver and psql take
-- it, and so that it neither begins nor ends the transaction of an app's own revisions. The other
-- files of this folder are written into it, as text.
-- It runs the revision's file if the database does not have it yet, by mqpg.alembic_version. A new
-- installation has the changes of all files, so its later revisions find nothing to do. The last
-- revision of a release then replaces the functions and views, unless they are of a newer release.
-- At the end the role and the settings of the transaction are those of before.
-- Until it has set its own search_path, every name is qualified: the path of its caller may lead to
-- what others have made.
-- Locks: an advisory one, so that migrators wait for each other; those of its DDL.
-- Cost: a look at the roles and the version, if there is nothing to do.
-- Errors: 42501; 55000 (mqpg is not installed, is older than 0.1.0, or lacks a revision before).
do $mqpg_revision$
declare
    v_number int := '/* mqpg: number */';
    v_head int := '/* mqpg: head */';
    v_release pg_catalog.text := '/* mqpg: release */';
    v_version pg_catalog.text := '^([0-9]+)[.]([0-9]+)(?:[.]([0-9]+))?';
    v_checksum pg_catalog.text := '/* mqpg: checksum */';
    v_before pg_catalog.text [];
    v_owner pg_catalog.text;
    v_current int;
    v_installs boolean := false;
    v_ran boolean := false;
    v_replaces boolean;
    v_done boolean := false;
begin
    v_before := array[
        pg_catalog.current_setting('search_path'), pg_catalog.current_setting('role'),
        pg_catalog.current_setting('check_function_bodies'),
        pg_catalog.current_setting('standard_conforming_strings')];
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    -- A role may have switched it off, and then PGMQ's SQL would be read in another way.
    perform set_config('standard_conforming_strings', 'on', true);
    perform pg_advisory_xact_lock(1836150836, 0);
    execute $mqpg_text$/* mqpg: trusted */$mqpg_text$;
    -- A role that only uses the broker finds that it is there.
    if has_schema_privilege(to_regnamespace('mqpg'), 'usage') then
        if has_function_privilege(to_regprocedure('mqpg.schema_version()'), 'execute') then
            select s.migration >= v_number and (v_number < v_head or s.migration > v_head or s.checksum = v_checksum
                or regexp_match(s.release, v_version)::int [] > regexp_match(v_release, v_version)::int [])
            into v_done from mqpg.schema_version() s;
        end if;
    end if;

    <<work>>
    begin
        exit work when v_done;
        execute $mqpg_text$/* mqpg: owner */$mqpg_text$;
        v_owner := current_user;

        if to_regclass('mqpg.broker') is null then
            if v_number > 1 then
                raise exception using errcode = 'object_not_in_prerequisite_state',
                    message = 'mqpg is not installed in this database',
                    hint = 'Run mqpg migrate, or the revisions from 0001_mqpg on.';
            end if;
            v_installs := true;
            execute $mqpg_text$/* mqpg: whole */$mqpg_text$;
            insert into mqpg.alembic_version (version_num) values (lpad(v_head::text, 4, '0') || '_mqpg');
            insert into mqpg.installation (release, checksum, breaking)
            values (v_release, v_checksum, '/* mqpg: last_breaking */');
        elsif to_regclass('mqpg.alembic_version') is null then
            -- It was installed before Alembic counted.
            if to_regclass('mqpg.migration') is null then
                raise exception using errcode = 'object_not_in_prerequisite_state',
                    message = 'the schema of this database is from before mqpg 0.1.0 and cannot be upgraded',
                    hint = 'Create a new database, or drop the schemas mqpg and pgmq with all messages.';
            end if;
            execute $mqpg_text$/* mqpg: alembic_version */$mqpg_text$;
            insert into mqpg.alembic_version (version_num)
            select lpad(max(m.migration_no)::text, 4, '0') || '_mqpg' from mqpg.migration m;
            alter table mqpg.installation add column breaking int not null default 0;
            comment on column mqpg.installation.breaking is
                'The last migration that clients and workers must know or stop; 0: there is none';
        end if;

        select max(left(a.version_num, 4)::int) into v_current
        from mqpg.alembic_version a where right(a.version_num, 5) = '_mqpg';
        if v_current is null and not exists (select from mqpg.broker) then
            raise exception using errcode = 'object_not_in_prerequisite_state',
                message = 'this database has the tables of mqpg without their rows, as a dump of the schema alone '
                    'leaves them',
                hint = case
                    when exists (select from mqpg.commit_log) then
                        'There are messages in mqpg.commit_log: restore the whole dump again, into an empty database.'
                    else 'They hold no message. Make them again: drop schema if exists mqpg, mqpg_audit, mqpg_retired '
                        'cascade, then mqpg migrate again.'
                end;
        elsif v_current is null then
            raise exception using errcode = 'object_not_in_prerequisite_state',
                message = 'the table mqpg.alembic_version does not say which revision this database has',
                hint = 'Restore it from a backup; an app''s own Alembic must not delete its rows.';
        elsif v_current < v_number - 1 then
            raise exception using errcode = 'object_not_in_prerequisite_state',
                message = format('this upgrades from migration %s, and this database has migration %s',
                    v_number - 1, v_current),
                hint = 'Run mqpg migrate, or the revisions before this one.';
        elsif v_current < v_number then
            v_ran := true;
            execute $mqpg_text$/* mqpg: file */$mqpg_text$;
            -- An environment whose own version table this is writes it itself.
            update mqpg.alembic_version a set version_num = lpad(v_number::text, 4, '0') || '_mqpg'
            where right(a.version_num, 5) = '_mqpg' and '/* mqpg: records */'::boolean;
            update mqpg.installation
            set breaking = case when '/* mqpg: breaking */'::boolean then v_number else breaking end;
        end if;

        v_replaces := not v_installs and v_number = v_head and v_current <= v_head and exists (
            select from mqpg.installation i
            where (v_ran or i.checksum <> v_checksum)
                and regexp_match(i.release, v_version)::int [] <= regexp_match(v_release, v_version)::int []);
        if v_replaces then
            -- A role that may not create schemas drops the functions that are gone at once.
            perform set_config('role', v_before[2], true);
            begin
                execute format('create schema if not exists mqpg_retired authorization %I', v_owner);
            exception when insufficient_privilege then
                null;
            end;
            perform set_config('role', v_owner, true);
            execute $mqpg_text$/* mqpg: code */$mqpg_text$;
            drop table if exists mqpg.migration;
            update mqpg.installation
            set release = v_release, checksum = v_checksum, replaced_at = clock_timestamp();
        end if;
        if v_installs or v_replaces then
            execute $mqpg_text$/* mqpg: privileges */$mqpg_text$;
            execute $mqpg_text$/* mqpg: asker */$mqpg_text$;
        end if;
    end work;

    perform set_config('role', v_before[2], true);
    perform set_config('check_function_bodies', v_before[3], true);
    perform set_config('standard_conforming_strings', v_before[4], true);
    perform set_config('search_path', v_before[1], true);
end
$mqpg_revision$;

-- Writes the heartbeat of a worker process. A caller without the right worker reports for consumers
-- only, whose names begin with `consumer-`, and an auditor for audits, whose names begin with
-- `audit-`, so that neither takes the name of another worker.
-- A role has at most 10000 rows of at most 64 KiB, because all of them are read at once. Their JSON has
-- no depth and no numbers that a reader cannot decode, because one such row would be an error in each
-- `mqpg status`.
-- Locks: the row of that process, waited for at most a second. Cost: one row written.
-- Errors: MQ001 (too large, too deep or too many), MQ025.
create function mqpg._heartbeat(
    worker_id text, role text, host text, pid int, state text, detail jsonb
) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
begin
    if pg_column_size(_heartbeat.detail) > 65536
        or octet_length(concat(_heartbeat.worker_id, _heartbeat.role, _heartbeat.host, _heartbeat.state)) > 1000 then
        raise exception using errcode = 'MQ001', message = 'a heartbeat may have 64 KiB of detail and names of 1000 bytes';
    end if;
    if jsonb_typeof(_heartbeat.detail) <> 'object' or jsonb_path_exists(_heartbeat.detail, 'strict $.**{20 to last}')
        or jsonb_path_exists(_heartbeat.detail,
            'strict $.** ? (@.type() == "number" && (@ > 1e4000 || @ < -1e4000))') then
        raise exception using errcode = 'MQ001',
            message = 'the detail of a heartbeat must be an object of at most 19 levels, with numbers up to 1e4000';
    end if;
    if not mqpg._has_privilege('worker') then
        if _heartbeat.role = 'audit' and _heartbeat.worker_id like 'audit-%' then
            perform mqpg._require_privilege('auditor');
            if _heartbeat.state not in ('active', 'stopped') then
                perform mqpg._refuse('may not report another state of an audit than active or stopped',
                    'grant_worker', '{}');
            end if;
        elsif _heartbeat.role = 'consumer' and _heartbeat.worker_id like 'consumer-%' then
            perform mqpg._require_subscription(_heartbeat.detail ->> 'consumer_group', _heartbeat.detail ->> 'topic');
        else
            perform mqpg._require_privilege('worker');
        end if;
    end if;
    if not exists (select from mqpg.worker k where k.worker_id = _heartbeat.worker_id)
        and (select count(*) from mqpg.worker k where k.reported_by = mqpg._caller()) >= 10000 then
        raise exception using errcode = 'MQ001',
            message = format('role %I reports for 10000 processes already', mqpg._caller()),
            hint = 'keep() forgets those that were not seen for a day.';
    end if;
    insert into mqpg.worker as w (worker_id, role, host, pid, state, detail, reported_by)
    values (
        _heartbeat.worker_id, _heartbeat.role, _heartbeat.host, _heartbeat.pid, _heartbeat.state,
        _heartbeat.detail, mqpg._caller())
    on conflict on constraint worker_pkey do update
    set state = excluded.state, detail = excluded.detail, seen_at = clock_timestamp()
    where w.reported_by = excluded.reported_by;
    if not found then
        raise exception using errcode = 'MQ025',
            message = format('role %I may not report for worker %L of another role', mqpg._caller(),
                _heartbeat.worker_id),
            hint = 'Missing: the role that reported first.';
    end if;
end
$$;

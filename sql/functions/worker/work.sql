-- Does the work of all three worker roles for some seconds, so that pg_cron can take the place of
-- every process. It calls append() every 20 ms, compensate() each second and keep() each minute, and
-- commits in between. One statement is enough, which pg_cron repeats as soon as the call has ended:
--
--     select cron.schedule('mqpg', '* * * * *', 'call mqpg.work(60)');
--
-- If compensate() or keep() fails, the call warns and continues. If append() fails, it ends with that
-- error. A checker function that takes long holds up deliveries, and ledgers in other databases are
-- not asked: both need the compensator's process.
-- Arguments:
--   seconds: for how long, 0 to 86400; default 60. With 0 each is called once.
-- Locks: those of append(), compensate() and keep(), each until its commit.
-- Cost: theirs; 50 calls of append() a second while there is nothing to do.
-- Errors: MQ001 (argument), MQ015 (default_transaction_isolation is not READ COMMITTED), 2D000
-- (called inside a transaction), MQ016 (as of append()).
create procedure mqpg.work(seconds double precision default 60)
-- A procedure that commits can have neither SECURITY DEFINER nor a search_path of its own, so it sets
-- one for each of its transactions, before anything is looked up. What it calls asks for the right.
language plpgsql as $$
declare
    v_until timestamptz;
    v_next_second timestamptz;
    v_next_minute timestamptz;
    v_moved bigint;
    v_done bigint;
begin
    set local search_path = pg_catalog, pg_temp;
    if work.seconds is null or work.seconds not between 0 and 86400 then
        raise exception using errcode = 'MQ001', message = format(
            'seconds must be between 0 and 86400, not %s', coalesce(work.seconds::text, 'null'));
    end if;
    v_until := clock_timestamp() + make_interval(secs => work.seconds);
    v_next_second := clock_timestamp();
    v_next_minute := v_next_second;
    loop
        v_moved := mqpg.append(100000);
        commit;
        set local search_path = pg_catalog, pg_temp;
        v_done := 0;
        if clock_timestamp() >= v_next_second then
            v_next_second := clock_timestamp() + interval '1 second';
            begin
                v_done := mqpg.compensate(1);
                if v_done > 0 then
                    v_next_second := clock_timestamp();
                else
                    perform mqpg._open_queues();
                    perform mqpg._apply_size_limits();
                end if;
            exception when others then
                raise warning 'compensate: % (%)', sqlerrm, sqlstate;
            end;
            commit;
            set local search_path = pg_catalog, pg_temp;
        end if;
        if clock_timestamp() >= v_next_minute then
            v_next_minute := clock_timestamp() + interval '1 minute';
            begin
                if exists (select from mqpg.keep() k where k.action not in ('pinned', 'blocked')) then
                    v_next_minute := clock_timestamp();
                    v_done := v_done + 1;
                else
                    perform mqpg._forget_workers();
                end if;
            exception when others then
                raise warning 'keep: % (%)', sqlerrm, sqlstate;
            end;
            commit;
            set local search_path = pg_catalog, pg_temp;
        end if;
        exit when clock_timestamp() >= v_until;
        if v_moved < 100000 and v_done = 0 then
            perform pg_sleep(0.02);
            commit;
            set local search_path = pg_catalog, pg_temp;
        end if;
    end loop;
end
$$;

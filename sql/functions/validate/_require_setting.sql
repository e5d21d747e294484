-- Trigger on the table settings: raises for a value that is no number or no interval, or that is
-- out of its range. It writes lock_timeout as PostgreSQL's own setting of that name is written.
-- Locks: none. Cost: negligible.
create function mqpg._require_setting() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    v_good boolean := false;
begin
    begin
        if new.least ~ '^[0-9]+$' then
            v_good := new.value ~ '^[0-9]{1,19}$'
                and new.value::numeric between new.least::numeric and new.most::numeric;
        else
            v_good := new.value::interval between new.least::interval and new.most::interval;
        end if;
    exception when invalid_datetime_format or datetime_field_overflow or interval_field_overflow then
        null;
    end;
    if v_good is not true then    -- null is no value
        raise exception using errcode = 'MQ001', message = format(
            'setting %s must be %s from %s to %s, not %L', new.name,
            case when new.least ~ '^[0-9]+$' then 'a number' else 'an interval' end, new.least, new.most, new.value);
    end if;
    if new.name = 'lock_timeout' then
        new.value := ceil(extract(epoch from new.value::interval) * 1000) || ' ms';
    end if;
    return new;
end
$$;

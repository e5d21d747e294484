-- What holds a message, a half message or a group up, and what would move it. Each row is a cause,
-- a stable word that docs/why.md lists, with its facts and a remedy; see why(). It runs as the
-- owner of the schema; why() adds what the caller may see of other sessions.

-- A message. A caller with the right to produce for its half message, and without the right to
-- receive from its topic, learns what holds it up until it has its offset.
-- Arguments, locks, cost, errors: as why().
create function mqpg._why(message_id bigint) returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_message record;
    v_may_read boolean;
begin
    perform mqpg._require_range('message_id', _why.message_id, 0, 9223372036854775807);
    select m.* into v_message from mqpg._message(_why.message_id) m;
    v_may_read := mqpg._has_privilege('operator', 'auditor') or mqpg._has_right('read', v_message.topic_id);
    if not v_may_read and (
        v_message.producer_group_id is null or not mqpg._has_right('produce', v_message.producer_group_id)) then
        perform mqpg._refuse('may not ask about messages of this topic',
            'grant_receive', '{"consumer_group": null, "topic": null}');
    end if;
    if v_message.kind is null then
        return query select u.* from mqpg._why_unknown(_why.message_id, false) u;
    else
        return query
        select w.cause, w.detail - mqpg._why_hidden(v_message.topic_id), w.remedy
        from mqpg._why_message(_why.message_id, v_may_read) w;
        if found then
            return query select d.* from mqpg._why_full_disk() d;
        end if;
    end if;
end
$$;

-- The half message of a handle.
-- Arguments, locks, cost, errors: as why().
create function mqpg._why(handle text) returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_half record;
    v_may_read boolean;
begin
    if _why.handle is null then
        raise exception using errcode = 'MQ001', message = 'handle must not be null';
    end if;
    select h.* into v_half from mqpg._half_by_handle(_why.handle) h;
    v_may_read := mqpg._has_privilege('operator', 'auditor') or v_half.known and mqpg._has_right('read',
        v_half.topic_id);
    if not v_may_read then
        perform mqpg._require_half_of(v_half.producer_group_id);
    end if;
    if v_half.known then
        return query
        select w.cause, w.detail - mqpg._why_hidden(v_half.topic_id), w.remedy
        from mqpg._why_message(v_half.message_id, v_may_read) w;
        if found then
            return query select d.* from mqpg._why_full_disk() d;
        end if;
    else
        return query
        select u.* from mqpg._why_unknown((select p.message_id from mqpg._parse_handle(_why.handle) p), true) u;
    end if;
end
$$;

-- A consumer group and its topic; at most 100 rows.
-- Arguments, locks, cost, errors: as why().
create function mqpg._why(consumer_group text, topic text) returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_topic mqpg.topic;
begin
    if not mqpg._has_privilege('operator', 'auditor') then
        begin
            perform mqpg._require_subscription(_why.consumer_group, _why.topic);
        exception when sqlstate 'MQ005' then
            null;   -- The right of the caller would cover it. The answer says that there is none.
        end;
    end if;
    perform mqpg._require_name('consumer_group', _why.consumer_group);
    v_topic := mqpg._topic(_why.topic);
    return query
    select s.cause, s.detail - mqpg._why_hidden(v_topic.topic_id), s.remedy
    from mqpg._why_subscription(_why.consumer_group, v_topic) s limit 100;
    if found then
        return query select d.* from mqpg._why_full_disk() d;
    end if;
end
$$;

-- The attempts of a message at one subscription since it was last redriven (or first delivered), in
-- order, as a dead letter keeps them. The cursor's history says when it was delivered and to which
-- consumer, as far as that history reaches back. The retries say when and why an attempt failed.
-- `reason` and `consumer` belong to the last attempt; with `limited` only if no nack ended that one. An
-- attempt without failed_at is one whose lease ran out.
-- Locks: none. Cost: a few index lookups for each attempt; negligible for a single attempt.
create function mqpg._attempts(
    subscription_id int, message_id bigint, attempts int, reason text, consumer text, limited boolean
) returns jsonb
language plpgsql as $$
declare
    v_message record;
    v_place record;
    v_since timestamptz := '-infinity';
    v_last jsonb := jsonb_strip_nulls(jsonb_build_object(
        'attempt', _attempts.attempts, 'consumer', _attempts.consumer, 'failed_at', clock_timestamp(),
        'reason', _attempts.reason));
begin
    if _attempts.attempts <= 1 and not _attempts.limited then
        return case _attempts.attempts when 0 then '[]' else jsonb_build_array(v_last) end;
    end if;
    select m.topic_id, m.queue_id, m.kind, m.xid into v_message from mqpg._message(_attempts.message_id) m;
    select p.queue_offset into v_place
    from mqpg._message_state(_attempts.message_id, v_message.topic_id, v_message.queue_id, v_message.kind,
        v_message.xid) p;
    return (
        with retry as (
            select d.* from mqpg.delayed d
            where d.first_id between _attempts.message_id - 1023 and _attempts.message_id
                and d.first_id + d.n > _attempts.message_id and d.subscription_id = _attempts.subscription_id
        ),
        since as (
            select coalesce(max(r.written_at) filter (where r.attempt = 1), v_since) as at from retry r
        ),
        way as (
            select v_message.queue_id::int as queue_id, v_place.queue_offset, 1 as attempt
            union all
            select -1, mqpg._offset_in_tick(mqpg._tick_of_transaction(r.xid, r.visible_at), r.topic_id, -1,
                r.subscription_id,
                _attempts.message_id), r.attempt
            from retry r
        ),
        step as (
            select w.attempt + d.attempt - 1 as attempt,
                jsonb_build_object('delivered_at', d.at, 'consumer', d.consumer, 'failed_at', d.failed_at,
                    'reason', d.reason) as detail
            from way w
            cross join lateral mqpg._deliveries_of(_attempts.subscription_id, w.queue_id, w.queue_offset) d
            where w.queue_offset is not null and d.at > (select s.at from since s)
            union all
            select r.attempt - 1, jsonb_build_object(
                'failed_at', r.written_at, 'consumer', r.consumer, 'reason', r.reason)
            from retry r where r.attempt > 1 and r.written_at > (select s.at from since s)
        )
        select jsonb_agg(a.detail order by a.attempt)
        from (
            select s.attempt, jsonb_build_object('attempt', s.attempt) || jsonb_object_agg(f.key, f.value) as detail
            from (
                select k.attempt, k.detail from step k
                union all
                select _attempts.attempts, v_last
                where not _attempts.limited or not exists (
                    select from step k
                    where k.attempt = _attempts.attempts and k.detail ->> 'failed_at' is not null)
            ) as s
            cross join lateral jsonb_each(s.detail) f
            where f.value <> 'null' and s.attempt <= _attempts.attempts
            group by s.attempt
        ) as a);
end
$$;

-- Whether a message ended before it was delivered to any group, so that its dedup id is free again: it
-- was recalled or rolled back, or every subscription of its topic skipped it by a purge, by expiry or
-- by a policy. A message that a seek skipped, or that is a dead letter, still exists.
-- A recall of it that is open is waited for.
-- Locks: see above, given back at once. Cost: a few lookups; for each subscription two more if the
-- topic has skipped messages.
-- Errors: 40001 (a REPEATABLE READ caller may not see its recall).
create function mqpg._frees_dedup_id(message_id bigint, topic_id int, halves boolean) returns boolean
language plpgsql as $$
declare
    v_message record;
    v_place record;
    v_key int := hashint8(_frees_dedup_id.message_id);
begin
    if exists (
        select from mqpg.delayed d
        where d.first_id <= _frees_dedup_id.message_id and d.first_id > _frees_dedup_id.message_id - 1024
            and _frees_dedup_id.message_id < d.first_id + d.n and d.subscription_id = 0)
        and not exists (select from mqpg.op_log o where o.message_id = _frees_dedup_id.message_id and o.stage = 1)
    then
        perform mqpg._require_fresh(null);
        perform pg_advisory_lock_shared(1836150840, v_key);
        perform pg_advisory_unlock_shared(1836150840, v_key);
        perform pg_advisory_lock(1836150839, 1);
        perform pg_advisory_unlock(1836150839, 1);
    end if;
    if exists (
        select from mqpg.op_log o
        where o.message_id = _frees_dedup_id.message_id and (o.op = 'r' or o.op = 'b' and not _frees_dedup_id.halves))
    then
        return true;
    end if;
    if not exists (
        select from mqpg.subscription s
        join mqpg.position_jump j on j.subscription_id = s.subscription_id and not j.back and j.why <> 'seek'
        where s.topic_id = _frees_dedup_id.topic_id)
        or exists (select from mqpg.dead_letter l where l.message_id = _frees_dedup_id.message_id) then
        return false;
    end if;
    select m.* into v_message from mqpg._message(_frees_dedup_id.message_id) m;
    select p.* into v_place
    from mqpg._message_state(
        _frees_dedup_id.message_id, v_message.topic_id, v_message.queue_id, v_message.kind, v_message.xid) p
    where v_message.kind is not null;
    return v_place.queue_offset is not null and not exists (
        select from mqpg.subscription s
        where s.topic_id = _frees_dedup_id.topic_id and (s.mode <> 'broadcast' or s.member <> '') and (
            not exists (
                select from mqpg.position_jump j
                where j.subscription_id = s.subscription_id and j.queue_id = v_message.queue_id and not j.back
                    and j.why <> 'seek' and j.from_offset <= v_place.queue_offset
                        and j.to_offset > v_place.queue_offset)
            or exists (
                select from mqpg._deliveries_of(s.subscription_id, v_message.queue_id, v_place.queue_offset))));
end
$$;

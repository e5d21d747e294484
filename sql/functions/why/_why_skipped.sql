-- Whether a subscription was moved over a message on purpose: over its offset in the queue, over
-- its offset in the retry lane, or, by a purge, over the time of a retry that had no offset yet.
-- Arguments: written_at, retry_offset, purged: its newest retry; null where there is none.
-- Locks: none. Cost: two index lookups.
create function mqpg._why_skipped(
    subscription mqpg.subscription, topic mqpg.topic, queue_id int, queue_offset bigint, written_at timestamptz,
    retry_offset bigint, purged boolean
) returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_id int := (_why_skipped.subscription).subscription_id;
    v_jump mqpg.position_jump := mqpg._skipped(v_id, _why_skipped.queue_id, _why_skipped.queue_offset);
begin
    if v_jump.jump_id is null and _why_skipped.retry_offset is not null then
        v_jump := mqpg._skipped(v_id, -1, _why_skipped.retry_offset);
    end if;
    if v_jump.jump_id is null and _why_skipped.purged and not mqpg._delivered_since(
        v_id, _why_skipped.queue_id, _why_skipped.queue_offset, _why_skipped.written_at) then
        v_jump.why := 'purge';
        v_jump.at := (_why_skipped.subscription).retries_from;
    end if;
    if v_jump.why is null then
        return;
    end if;
    cause := 'skipped';
    detail := jsonb_strip_nulls(jsonb_build_object(
        'consumer_group', (_why_skipped.subscription).consumer_group, 'why', v_jump.why, 'at', v_jump.at,
        'by', v_jump."by", 'queue_id', _why_skipped.queue_id, 'queue_offset', _why_skipped.queue_offset));
    remedy := mqpg._seek_remedy(
        _why_skipped.subscription, _why_skipped.topic, _why_skipped.queue_id, _why_skipped.queue_offset);
    return next;
end
$$;

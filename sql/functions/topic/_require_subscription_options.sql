-- Raises for options of a subscription that are out of range or do not fit together. A pinned
-- consumer's own database has one offset for each queue (C2), which cannot say which messages of
-- other keys were consumed.
-- Locks: none. Cost: one index lookup.
create function mqpg._require_subscription_options(subscription mqpg.subscription) returns void
language plpgsql stable as $$
declare
    v_mode text := (_require_subscription_options.subscription).mode;
    v_on_failure text := (_require_subscription_options.subscription).on_failure;
begin
    perform mqpg._require_one_of('mode', v_mode, array['exclusive', 'shared', 'pinned', 'broadcast']);
    perform mqpg._require_one_of('on_failure', v_on_failure, array['skip', 'block_key', 'block_queue']);
    perform mqpg._require_range('max_attempts', (_require_subscription_options.subscription).max_attempts, 1, 10000);
    perform mqpg._require_interval('retry_delay', (_require_subscription_options.subscription).retry_delay, '0');
    -- A filter that is stored was allowed by the version that stored it, and keeps working.
    perform mqpg._require_filter(
        case when not exists (
            select from mqpg.subscription s
            where s.topic_id = (_require_subscription_options.subscription).topic_id
                and s.consumer_group = (_require_subscription_options.subscription).consumer_group
                and s.filter::text = (_require_subscription_options.subscription).filter::text)
        then (_require_subscription_options.subscription).filter end,
        (_require_subscription_options.subscription).tags);
    if v_mode = 'shared' and v_on_failure <> 'skip' then
        raise exception using errcode = 'MQ001', message = format(
            'on_failure must be skip in mode shared, not %L: several consumers read a queue at once, so no '
            'message can wait for a failed one before it', v_on_failure),
            hint = 'mode exclusive keeps the order of each key.';
    end if;
    if v_mode = 'pinned' and v_on_failure = 'block_key' then
        raise exception using errcode = 'MQ001', message =
            'on_failure must be skip or block_queue in mode pinned, not ''block_key'': a consumer that keeps one '
            'offset for each queue cannot continue with other keys';
    end if;
    if (v_mode in ('shared', 'broadcast') or (_require_subscription_options.subscription).filter is not null)
        and exists (
            select from mqpg.topic t
            where t.topic_id = (_require_subscription_options.subscription).topic_id and t.kind = 'relay') then
        raise exception using errcode = 'MQ024', message =
            'mode must be exclusive or pinned, and filter must be null, for a relay topic: the COMMIT of a half '
            'message must come after its PREPARE, to the same inbox';
    end if;
end
$$;

-- Refuses a subscription whose settings are out of range (MQ001) or do not go together: block_key and
-- block_queue promise an order that mode shared does not have, and the one offset of a pinned consumer's own
-- database (C2) cannot say which messages of other keys went on. MQ020: a filter with a variable that it is not given.
-- MQ024: a relay topic (protocol T4) whose phases would overtake one another or be filtered apart.
-- Locks: none. Cost: one index lookup.
create function mqpg._check_subscription(subscription mqpg.subscription) returns void
language plpgsql stable as $$
declare
    v_mode text := (_check_subscription.subscription).mode;
    v_on_failure text := (_check_subscription.subscription).on_failure;
begin
    perform mqpg._check_one_of('mode', v_mode, array['exclusive', 'shared', 'pinned', 'broadcast']);
    perform mqpg._check_one_of('on_failure', v_on_failure, array['skip', 'block_key', 'block_queue']);
    perform mqpg._check_range('max_attempts', (_check_subscription.subscription).max_attempts, 1, 10000);
    perform mqpg._interval('retry_delay', (_check_subscription.subscription).retry_delay, '0');
    perform mqpg._check_filter(
        (_check_subscription.subscription).filter, (_check_subscription.subscription).tags);
    if v_mode = 'shared' and v_on_failure <> 'skip' then
        raise exception using errcode = 'MQ001', message = format(
            'on_failure must be skip in mode shared, not %L: several ranges of a queue are in flight, so nothing '
            'can be held back behind a failed message', v_on_failure),
            hint = 'mode exclusive keeps the order of each key.';
    end if;
    if v_mode = 'pinned' and v_on_failure = 'block_key' then
        raise exception using errcode = 'MQ001', message =
            'on_failure must be skip or block_queue in mode pinned, not ''block_key'': a consumer that keeps one '
            'offset a queue cannot go on with other keys';
    end if;
    if (v_mode in ('shared', 'broadcast') or (_check_subscription.subscription).filter is not null)
        and exists (
            select from mqpg.topic t
            where t.topic_id = (_check_subscription.subscription).topic_id and t.kind = 'relay') then
        raise exception using errcode = 'MQ024', message =
            'a relay topic is read in mode exclusive or pinned and without a filter: the COMMIT of a half must come '
            'after its PREPARE, to the same inbox';
    end if;
end
$$;
comment on function mqpg._check_subscription(mqpg.subscription) is 'Internal: refuse settings of a subscription';

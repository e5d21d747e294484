-- Discards dead letters for good. trace() still knows them until the setting `position_jump_keep`
-- is over.
-- Arguments:
--   consumer_group, topic: names of the group and the topic.
--   message_ids: discard only these; null (default): all.
--   filter: a jsonpath that chooses dead letters, as a subscription's filter does; null (default):
--       all.
--   max_messages: discard at most so many; null (default): no limit.
-- Returns: how many were discarded.
-- Locks: the dead letters' rows.
-- Cost: one row deleted and one written for each dead letter.
-- Errors: MQ001 (argument), MQ002 (name), MQ003 (unknown topic), MQ005 (unknown subscription),
-- MQ020 (filter).
create function mqpg.discard_dead_letters(
    consumer_group text, topic text, message_ids bigint [] default null, filter jsonpath default null,
    max_messages int default null
) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    perform mqpg._require_privilege('operator');
    return (
        select count(*) from mqpg._take_dead_letters(
            discard_dead_letters.consumer_group, discard_dead_letters.topic, discard_dead_letters.message_ids,
            discard_dead_letters.filter, discard_dead_letters.max_messages, 'discarded'));
end
$$;

-- Takes dead letters away for good, chosen as by redrive(); returns how many. trace() still knows them until the
-- setting `jump_keep` is over.
-- Locks: the letters' rows. Cost: one row deleted and one written a letter. Errors: MQ001, MQ002, MQ003, MQ005,
-- MQ020.
create function mqpg.discard_dead_letters(
    consumer_group text, topic text, message_ids bigint [] default null, filter jsonpath default null,
    max_messages int default null
) returns bigint
language sql as $$
    select count(*) from mqpg._take_dead_letters(
        discard_dead_letters.consumer_group, discard_dead_letters.topic, discard_dead_letters.message_ids,
        discard_dead_letters.filter, discard_dead_letters.max_messages, 'discarded')
$$;
comment on function mqpg.discard_dead_letters(text, text, bigint [], jsonpath, int) is
    'Take dead letters away for good; returns how many';

-- The call that moves a subscription, in one queue, to an offset.
-- Locks: none. Cost: negligible.
create function mqpg._seek_remedy(subscription mqpg.subscription, topic mqpg.topic, queue_id int, target bigint)
returns jsonb
language sql immutable as $$
    select mqpg._remedy('seek', jsonb_strip_nulls(jsonb_build_object(
        'consumer_group', (_seek_remedy.subscription).consumer_group, 'topic', (_seek_remedy.topic).name,
        'queue_id', _seek_remedy.queue_id, 'target', _seek_remedy.target::text,
        'consumer', nullif((_seek_remedy.subscription).member, ''))))
$$;

-- Offsets and effects whose message is in a state that accounts for none: not committed, and not past
-- retention. consumer_group is null for an offset.
select
    null as consumer_group, e.topic_id, e.topic, e.lane, e.queue_id, e.tick_id, e.queue_offset, e.message_id, e.state,
    'in a queue' as place
from odd_entry as e
where e.state not in ('committed', 'expired')
union all
select
    f.consumer_group, f.topic_id, f.topic, null, f.queue_id, null, f.queue_offset, f.message_id, f.state, 'applied'
from odd_effect as f
where f.state not in ('committed', 'expired', 'topic_dropped')

-- Topics and their settings. paused: it delivers nothing to anybody.
-- Cost: one row a topic.
create view mqpg.topics as
select
    t.name as topic,
    t.kind,
    t.queues,
    t.retention,
    t.paused,
    t.max_payload,
    t.message_ttl,
    t.on_expired,
    t.lose_after,
    t.lose_over,
    t.created_at
from mqpg.topic as t;
comment on view mqpg.topics is 'Topics and their settings';

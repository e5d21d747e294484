-- Messages of dropped topics that arrived after the drop.
-- Cost: as _orphans().
create view mqpg.orphans as
select v.topic, v.topic_id, v.dropped_at, v.forced, v.messages, v.undecided
from mqpg._orphans() as v;
-- forced: Whether drop_topic() was called with force
-- messages: Number of messages that became visible after the drop
-- undecided: Number of its half messages that can still be decided

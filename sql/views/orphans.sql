-- Messages of dropped topics that arrived after the drop.
-- Cost: as _orphans().
create view mqpg.orphans as
select v.topic, v.topic_id, v.dropped_at, v.forced, v.messages, v.undecided
from mqpg._orphans() as v;
comment on column mqpg.orphans.forced is 'Whether drop_topic() was called with force';
comment on column mqpg.orphans.messages is 'Number of messages that became visible after the drop';
comment on column mqpg.orphans.undecided is 'Number of its half messages that can still be decided';

-- Adds where each subscription began, and which offsets its consumers take with a journal.
-- breaking: no
create table mqpg.queue_start (
    subscription_id int not null references mqpg.subscription on delete cascade,
    queue_id smallint not null,
    start_offset bigint,
    journal int8multirange,
    primary key (subscription_id, queue_id)
);
comment on column mqpg.queue_start.queue_id is '-1: the retry lane';
comment on column mqpg.queue_start.start_offset is 'The first offset that it was to get; null: of an earlier release';
comment on column mqpg.queue_start.journal is
    'Offsets that consumers with a journal received; null: no consumer of this release has said so';
comment on table mqpg.queue_start is
    'Where each subscription began in each queue, and which offsets its consumers take with a journal';
-- 's': the version that subscribe() wrote.
insert into mqpg.queue_start (subscription_id, queue_id, start_offset)
select s.subscription_id, q.queue_id, (
    select c.committed from mqpg.cursor as c
    where c.subscription_id = s.subscription_id and c.queue_id = q.queue_id and c.version = 1 and c.action = 's'
    limit 1
)
from mqpg.subscription as s
join mqpg.topic as t on t.topic_id = s.topic_id
cross join generate_series(-1, t.queues - 1) as q (queue_id);

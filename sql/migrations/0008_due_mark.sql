-- Adds what a delayed send reads instead of the newest tick and the last partition of the table delayed.
-- breaking: no
alter table mqpg.clock add column delayed_until timestamptz;
comment on column mqpg.clock.delayed_until is 'End of the last partition of the table delayed';
update mqpg.clock set delayed_until = (
    select s.upper_bound::timestamptz from mqpg.segment as s
    where s.family = 'delayed'
    order by s.segment_no desc
    limit 1
);
create sequence mqpg.due_mark as bigint minvalue 1 start 1 cache 1;
comment on sequence mqpg.due_mark is
    'due_until of the newest tick, in microseconds since 1970: a sender reads it without looking for the tick';
select setval('mqpg.due_mark', greatest(1, (date_part('epoch', max(t.due_until)) * 1000000)::bigint))
from mqpg.tick as t
where isfinite(t.due_until);

-- Adds what receive() reads so as not to open the partitions of later ticks.
-- breaking: no
create sequence mqpg.tick_mark as bigint minvalue 0 start 0 cache 1;
comment on sequence mqpg.tick_mark is
    'The newest tick_id, or a greater one: a statement that names it opens no partitions of later ticks';
select setval('mqpg.tick_mark', max(t.tick_id)) from mqpg.tick as t;

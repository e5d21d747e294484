-- Dedup ids of recent sends. A unique key holds inside one partition only, so each id is written to the
-- current slot and to the next: two sends within a window always meet in one.
create table mqpg.dedup (
    message_id bigint not null,
    slot bigint not null,           -- floor(epoch / dedup_window)
    topic_id int not null,
    dedup_id text not null,
    primary key (topic_id, dedup_id, slot)
) partition by range (slot);
comment on table mqpg.dedup is 'Dedup ids of sends within the dedup window';

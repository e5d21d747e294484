-- Dedup ids of sends within the dedup window, append-only, partitioned by slot. A unique key holds
-- inside one partition only, so each id is written to the current time slot and to the next one.
-- Two sends within one window therefore always meet in a slot. An id that is free again has more rows;
-- see _register_dedup_ids().
create table mqpg.dedup (
    message_id bigint not null,  -- The message that was stored first under the id
    slot bigint not null,  -- Time in units of the setting dedup_window since 1970, rounded down
    topic_id int not null,
    dedup_id text not null,
    primary key (topic_id, dedup_id, slot)
) partition by range (slot);

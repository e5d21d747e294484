-- Server-wide settings that change rarely; each has its default here and nowhere else. (Plural, since
-- PostgreSQL names an array type _setting after a table setting, which would shadow the function.)
create table mqpg.settings (
    name text primary key,
    value text not null,
    description text not null
);
comment on table mqpg.settings is 'Server-wide settings of mqpg';
insert into mqpg.settings (name, value, description) values
('segment_ids', '1073741824', 'batch ids in a commit_log segment (closing one early skips the rest)'),
('segment_age', '6 hours', 'a commit_log segment older than this is closed and the next one begun'),
('segments_ahead', '2', 'empty segments kept ready behind the current one'),
('segment_ticks', '1073741824', 'ticks in a consume_queue / tick segment'),
('cursor_slot_age', '6 hours', 'a cursor slot older than this is replaced by a new one'),
('delayed_slot', '1 day', 'length of a slot of the delayed table'),
('dedup_window', '1 hour', 'two sends with one dedup id within this time store one message'),
('held_limit', '10000', 'survivors that keep() copies out of a segment before it drops it; more pin it'),
('op_log_keep', '7 days', 'how long decisions outlive their segment'),
('jump_keep', '90 days', 'how long it is kept what seek, purge, expiry and policies left out, and former dead letters'),
('retry_delay_cap', '1 hour', 'longest back-off between two attempts'),
('filter_time', '1 s', 'how long one receive looks through messages that a filter does not choose'),
('lock_timeout', '5 s', 'how long ack, nack, extend and release wait for a queue''s lock');

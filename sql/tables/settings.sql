-- Server-wide settings that change rarely; each has its default here and nowhere else. (Plural, since
-- PostgreSQL names an array type _setting after a table setting, which would shadow the function.)
create table mqpg.settings (
    name text primary key,
    value text not null,
    least text not null,            -- a number, or an interval
    most text not null,
    description text not null
);
comment on table mqpg.settings is 'Server-wide settings of mqpg';
insert into mqpg.settings (name, value, least, most, description) values
('segment_ids', '1073741824', '1', '1152921504606846976',
    'batch ids in a commit_log segment (closing one early skips the rest)'),
('segment_age', '6 hours', '0 s', '100 years',
    'a commit_log segment older than this is closed and the next one begun'),
('segments_ahead', '2', '1', '100', 'empty segments kept ready behind the current one'),
('segment_ticks', '1073741824', '1', '1152921504606846976', 'ticks in a consume_queue / tick segment'),
('cursor_slot_age', '6 hours', '0 s', '100 years', 'a cursor slot older than this is replaced by a new one'),
('delayed_slot', '1 day', '10 ms', '100 years', 'length of a slot of the delayed table'),
('dedup_window', '1 hour', '1 s', '1 year', 'two sends with one dedup id within this time store one message'),
('held_limit', '10000', '0', '1000000000',
    'survivors that keep() copies out of a segment before it drops it; more pin it'),
('op_log_keep', '7 days', '0 s', '100 years', 'how long decisions outlive their segment'),
('jump_keep', '90 days', '0 s', '100 years',
    'how long it is kept what seek, purge, expiry and policies left out, and former dead letters'),
('retry_delay_cap', '1 hour', '1 ms', '100 years', 'longest back-off between two attempts'),
('filter_time', '1 s', '0 s', '1 hour',
    'how long one receive looks through messages that a filter does not choose'),
('lock_timeout', '5 s', '1 ms', '1 hour', 'how long ack, nack, extend and release wait for a queue''s lock');

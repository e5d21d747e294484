-- Server-wide settings of mqpg. Each default value is written here and nowhere else. The name is
-- plural because PostgreSQL would name the array type of a table "setting" _setting, which would
-- shadow the function mqpg._setting.
create table mqpg.settings (
    name text primary key,
    value text not null,  -- The current value, as text
    least text not null,  -- The smallest allowed value, a number or an interval
    most text not null,  -- The greatest allowed value
    description text not null
);
insert into mqpg.settings (name, value, least, most, description) values
('segment_ids', '268435456', '1', '1099511627776',
    'batch ids in a commit_log segment; closing one early skips the rest'),
('segment_age', '6 hours', '0 s', '100 years',
    'a commit_log segment older than this is closed, and the next one begins'),
('segments_most', '28', '4', '1000', 'closed segments of a family; keep() merges neighbours when there are more'),
('merge_waste', '67108864', '0', '1152921504606846976',
    'bytes of messages past retention in closed segments for which keep() rewrites these'),
('segments_ahead', '2', '1', '100', 'empty segments that are ready after the current one'),
('segment_ticks', '1073741824', '1', '1152921504606846976', 'ticks in a segment of consume_queue and tick'),
('cursor_slot_age', '6 hours', '0 s', '100 years', 'a cursor slot older than this is replaced by a new one'),
('delayed_slot', '1 day', '10 ms', '100 years', 'length of a slot of the delayed table'),
('dedup_window', '1 hour', '1 s', '1 year', 'two sends with one dedup id within this time store one message'),
('held_limit', '10000', '0', '1000000000',
    'messages that keep() copies out of a segment before it drops it; with more the segment stays'),
('op_log_keep', '7 days', '0 s', '100 years', 'how long decisions outlive their segment'),
('position_jump_keep', '90 days', '0 s', '100 years',
    'how long reports of skipped offsets and of former dead letters are stored'),
('retry_delay_cap', '1 hour', '1 ms', '100 years', 'longest back-off between two attempts'),
('filter_time', '1 s', '0 s', '1 hour',
    'how long one receive() may search through messages that a filter does not choose'),
('lock_timeout', '5 s', '1 ms', '1 hour',
    'how long a call waits for the lock of a queue, a topic, a group or a subscription'),
('max_bytes', '0', '0', '9223372036854775807',
    'bytes that the tables of the broker may take before sends raise MQ028; 0: no limit');

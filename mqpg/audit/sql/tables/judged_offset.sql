-- Messages that are not judged, or open, although their offset is in the judged part of a queue.
create temp table judged_offset (message_id bigint primary key);

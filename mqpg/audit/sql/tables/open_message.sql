-- Messages with ids below judged.until_id whose life was not over when that part was judged.
create temp table open_message (message_id bigint primary key);

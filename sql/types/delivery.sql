-- One delivered message, as receive() and fetch() return it.
create type mqpg.delivery as (
    message_id bigint,
    topic text,
    queue_id int,           -- -1: the subscription's retry lane
    queue_offset bigint,    -- dense: 0, 1, 2, … in each queue
    key text,
    tag text,
    headers jsonb,
    payload json,
    born_at timestamptz,
    attempt int,            -- 1 at first
    receipt text            -- one per call; null from fetch()
);
comment on type mqpg.delivery is 'A delivered message with the receipt that settles it';

-- A delivered message, with the receipt that acknowledges it. A row of what receive() and fetch()
-- return.
create type mqpg.delivery as (
    message_id bigint,
    topic text,
    queue_id int,           -- -1: the message came by the subscription's retry lane
    queue_offset bigint,    -- dense: 0, 1, 2, … in each queue
    key text,
    tag text,
    headers jsonb,
    payload json,
    born_at timestamptz,
    attempt int,            -- 1 for the first delivery
    receipt text            -- the same for all rows of one receive(); null from fetch()
);

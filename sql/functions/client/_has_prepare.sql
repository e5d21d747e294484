-- Whether a range of a relay topic's queue has the PREPARE of a handle.
-- Locks: none. Cost: one look at each message of the range.
create function mqpg._has_prepare(topic_id int, queue_id int, handle text, from_offset bigint, to_offset bigint)
returns boolean
language sql stable as $$
    select exists (
        select from mqpg._claimed_messages(_has_prepare.topic_id, _has_prepare.queue_id, 0,
            row(null, _has_prepare.from_offset, _has_prepare.to_offset, 1, null, null, null, null, null)) c
        cross join lateral mqpg._message(c.deliver_id) m
        where m.headers ->> 'mqpg-handle' = _has_prepare.handle and m.headers ->> 'mqpg-phase' = 'prepare')
$$;

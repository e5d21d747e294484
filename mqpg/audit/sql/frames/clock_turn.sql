-- Where the versions of a cursor show that the clock of the server went back: the times of one are
-- before those of the version before it. In between, the offsets from low_offset to high_offset - 1
-- were being delivered, and those from high_offset on came later.
select
    t.subscription_id, t.queue_id,
    least(t.previous_committed, t.committed) as low_offset,
    greatest(t.previous_claimed, t.claimed) as high_offset
from transition as t
where t.at < t.previous_at

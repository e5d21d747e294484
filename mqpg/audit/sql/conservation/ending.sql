-- How the pending time of each stored offset ended for each subscription. `again` is none: a move
-- back made it pending once more, and what ended before does not bind the group any longer.
-- acked | nacked | buried (a dead letter) | expired | jumped (a seek, a purge or a policy) | passed
-- (a filter left it out, nobody got it) | odd (its action ends nothing).
select
    c.subscription_id, m.queue_id, m.queue_offset, m.message_id, m.attempt, c.version, c.at, c.held, c.action,
    case
        when not c.freed then 'again'
        when c.action = 'moved' then 'jumped'
        when c.held and c.action in ('ack', 'ack_and_receive') then 'acked'
        when c.held and c.action = 'nack' then 'nacked'
        when (c.held or c.lane > 0) and c.action in ('dead_letter', 'take_over') then 'buried'
        when not c.held and c.action = 'expired' then 'expired'
        when not c.held and c.lane = 0
            and c.action in ('receive', 'ack_and_receive', 'filtered', 'take_over', 'dead_letter') then 'passed'
        else 'odd'
    end as ending
from (
    -- offset 0: each offset is looked up by all four columns, and not in all queues.
    select r.*, o.o as queue_offset
    from change as r
    cross join lateral generate_series(r.from_offset, r.to_offset - 1) as o (o)
    offset 0
) as c
join stored_message as m
    on m.topic_id = c.topic_id and m.lane = c.lane and m.queue_id = c.queue_id and m.queue_offset = c.queue_offset

-- The offsets whose message is not simply committed, in its queue and with its own body.
select e.*
from entry as e
where e.state <> 'committed' or not e.own_body or (e.lane = 0 and e.queue_id <> e.record_queue)

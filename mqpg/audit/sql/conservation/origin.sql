-- From which version on each cursor is known without a gap, and since when. whole: since the
-- subscription began. last_version, last_slot: its newest state.
select
    s.subscription_id, s.topic_id, s.lane, s.queue_id, s.version, s.at, s.claimed,
    s.version = 1 and s.action = 'subscribe' as whole,
    e.version as last_version, e.slot as last_slot
from (
    select
        b.*,
        row_number() over (partition by b.subscription_id, b.queue_id order by b.version desc, b.slot desc) as nth
    from step as b
    where not b.follows
) as s
join (
    select
        n.*,
        row_number() over (partition by n.subscription_id, n.queue_id order by n.version desc, n.slot desc) as nth
    from step as n
) as e
    on e.subscription_id = s.subscription_id and e.queue_id = s.queue_id and e.nth = 1
where s.nth = 1

-- phantom: delivered or applied, and no committed transaction can ever account for it.
-- A message from before the newest tick that is missing was there, so it is a gap.
with reason (state, why) as (
    values
    ('missing', 'there is no such message'),
    ('other_topic', 'the message is one of another topic'),
    ('final', 'this is the id of a final payload, not of a message'),
    ('relayed', 'this is the id of a half message that is delivered as other messages'),
    ('rolled_back', 'the message was rolled back'),
    ('recalled', 'the message was recalled')
)

select
    u.consumer_group, u.topic, u.queue_id, u.queue_offset, u.message_id,
    u.place || ', but ' || r.why as evidence
from unaccounted as u
join reason as r on r.state = u.state
cross join horizon as h
where u.state <> 'missing' or u.message_id >> 10 > h.newest_id
union all
select
    e.consumer_group, e.topic, e.queue_id, e.queue_offset, e.message_id,
    'applied, but the group never subscribed to the topic'
from effect as e
cross join horizon as h
where e.state in ('committed', 'expired') and not h.had_others
    and not exists (
        select from reader as r where r.consumer_group = e.consumer_group and r.topic_id = e.topic_id
    )
union all
-- Where the ledger row may have been purged, its absence proves nothing.
select
    null, m.topic, null, null, m.message_id,
    format(
        'delivered, committed by the %s, but the ledger %s has %s',
        m.decided_by, m.ledger, case m.entry when 'fence' then 'a fence' else 'no row' end
    )
from odd_match as m
cross join run as u
where m.audited and m.seen and m.state = 'committed'
    and (coalesce(m.entry = 'fence', false) or (m.entry is null and m.decided_at >= u.purged_before and not coalesce(m.decided_by = 'admin', false)))
union all
select
    null, t.topic, m.queue_id, null, m.message_id,
    format('message %s delivers its commit, but it was rolled back', m.relayed_as)
from odd_message as m
join topic as t on t.topic_id = m.topic_id
where m.state = 'rolled_back' and m.relayed_as is not null

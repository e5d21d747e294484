-- Half messages that an operator committed by hand, without a local transaction: no anomaly, because
-- settle() is there for that. At most as many as the parameter says.
select
    'override' as kind, null as consumer_group, m.topic,
    null::int as queue_id,
    null::bigint as queue_offset,
    m.message_id,
    format('committed by hand, the ledger %%s has no row', m.ledger) as evidence
from ledger_match as m
where m.audited and m.state = 'committed' and m.entry is null and coalesce(m.decided_by = 'admin', false)
order by m.topic, m.message_id
limit %s

-- unconfirmed: messages that are still in an outbox although nothing runs any more. Nobody decided
-- the half message (P2), or the broker has it (P7). Two databases that contradict each other are a
-- mismatch.
select
    null as consumer_group, o.topic,
    null::int as queue_id,
    null::bigint as queue_offset,
    o.message_id,
    case o.message_state
        when 'undecided' then format('prepared (P2) for the outbox %s, and not decided', o.ledger)
        else format('the broker has it (P7), and the outbox %s still has its row', o.ledger)
    end as evidence
from outbox as o
cross join run as u
where u.drained
    and (
        o.message_state = 'undecided'
        or (o.kind <> 'h' and o.state = 'send')
        or (o.state = 'rollback' and o.message_state = 'rolled_back')
        or (o.state = 'commit' and o.message_state <> 'rolled_back')
    )

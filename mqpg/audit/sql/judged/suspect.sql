-- Why what was judged must be judged again: a finding about a message that is open or not judged, and
-- has offsets in the judged part. A delivery, a retry or a jump over them was not read, and may
-- explain it. What compares only a decision with a ledger row needs no offset.
select format('%s was found of message %s, which has offsets in the judged part', a.kind, a.message_id) as why
from anomaly as a
join judged_offset as o on o.message_id = a.message_id
where a.kind not in ('undecided', 'unconfirmed', 'mismatch') or (a.kind = 'mismatch' and a.consumer_group is not null)
order by a.message_id, a.kind
limit 1

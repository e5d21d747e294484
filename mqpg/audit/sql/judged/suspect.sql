-- A finding about a message that is open or not judged, although offsets of it may be in the judged
-- part: a delivery, a retry or a jump over them was not read, and may explain it. What kinds say that
-- compare only a decision with a ledger row needs no offset.
select a.kind, a.message_id
from anomaly as a
where a.kind not in ('undecided', 'unconfirmed', 'mismatch')
    and (
        exists (select from open_message as o where o.message_id = a.message_id)
        or exists (select from judged_offset as o where o.message_id = a.message_id)
    )
order by a.message_id, a.kind
limit 1

-- Messages that must stay open because another one does, or is too new: those that one transaction
-- decided, a half message with its final payload, and with the message that a relay topic sent.
with unsure as (
    select m.message_id, m.commit_xid, m.kind, m.deliver_id, m.relayed_as
    from message as m
    cross join judged as j
    where m.message_id >= j.until_id
        or exists (select from open_message as o where o.message_id = m.message_id)
)

select f.message_id
from (
    select m.message_id
    from message as m
    where m.kind = 'h' and m.commit_xid in (select u.commit_xid from unsure as u where u.kind = 'h')
    union
    select m.message_id
    from message as m
    where m.deliver_id in (select u.message_id from unsure as u)
    union
    select m.message_id
    from message as m
    where m.relayed_as in (select u.message_id from unsure as u)
    union
    select u.deliver_id from unsure as u
    union
    select u.relayed_as from unsure as u
) as f
cross join judged as j
where f.message_id < j.until_id
    and exists (select from message as m where m.message_id = f.message_id)
    and not exists (select from open_message as o where o.message_id = f.message_id)

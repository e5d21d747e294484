-- The messages that have several rows in the journal of one subscription, or of none.
select e.owner_id, e.message_id from effect as e group by 1, 2 having count(*) > 1

-- Half messages that nobody decided within the expire_after of their producer group, and how they
-- ended, newest first.
-- Cost: reads the table of expired half messages once.
create view mqpg.half_expired as
select e.message_id, e.handle, e.producer_group, e.topic, e.prepared_at, e.expired_at, e.outcome, e.reason
from mqpg.expired_half as e
order by e.expired_at desc;
-- prepared_at: When prepare() stored it
-- expired_at: When it was decided because it had expired
-- outcome: rolled_back, or committed where the ledger of this database had a local row
-- reason: Why it ended so

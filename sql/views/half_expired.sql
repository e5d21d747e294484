-- Half messages that nobody decided within the expire_after of their producer group, and how they
-- ended, newest first.
-- Cost: reads the table of expired half messages once.
create view mqpg.half_expired as
select e.message_id, e.handle, e.producer_group, e.topic, e.prepared_at, e.expired_at, e.outcome, e.reason
from mqpg.expired_half as e
order by e.expired_at desc;
comment on column mqpg.half_expired.prepared_at is 'When prepare() stored it';
comment on column mqpg.half_expired.expired_at is 'When it was decided because it had expired';
comment on column mqpg.half_expired.outcome is
    'rolled_back, or committed where the ledger of this database had a local row';
comment on column mqpg.half_expired.reason is 'Why it ended so';

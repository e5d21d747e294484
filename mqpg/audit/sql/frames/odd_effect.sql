-- The effects whose message or subscription says something that few effects say, or that have a time before
-- their commit or after the audit. What retention has dropped is not among them.
select e.*
from effect as e
cross join run as u
where e.state not in ('committed', 'expired', 'topic_dropped') or e.waiting or e.unattributed or e.strange
    or e.subscription_id <> e.owner_id or greatest(e.committed_at, e.due_at) > e.applied_at
    or e.applied_at > u.taken_at

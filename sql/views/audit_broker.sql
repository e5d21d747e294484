-- The table broker for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_broker as
select b.singleton, b.broker_id, b.incarnation, b.system_identifier, b.timeline, b.installed_at,
    b.database_oid
from mqpg.broker as b;

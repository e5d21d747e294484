-- The table ledger for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_ledger as
select l.handle, l.entry, l.at
from mqpg.ledger as l;

-- The ledger with its handles, for reconcile() with Spark, which commits by them. Only auditors read
-- it. The view mqpg_audit.ledger has no handles.
create view mqpg.audit_ledger as
select l.handle, l.entry, l.at
from mqpg.ledger as l;

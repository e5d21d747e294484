-- The table archived_segment for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_archived_segment as
select a.table_name, a.lower_bound, a.upper_bound, a.family, a.segment_no, a.incarnation, a.location, a.columns, a.n,
    a.digest, a.left_out, a.archived_at, a.archived_by
from mqpg.archived_segment as a;

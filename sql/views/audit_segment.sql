-- The table segment for the audit, as it is. Only auditors read it; see audit_commit_log.
create view mqpg.audit_segment as
select s.family, s.segment_no, s.lower_bound, s.upper_bound, s.made_at, s.opened_at, s.opened_xid, s.carried_to,
    s.carry_again, s.closed_at, s.tails_noted_at, s.blocked_since, s.leaving, s.leaving_since, s.leaving_xid,
    s.body_dropped_at, s.dropped_at, s.decided_at, s.merged_at, s.left_out, s.sizes
from mqpg.segment as s;

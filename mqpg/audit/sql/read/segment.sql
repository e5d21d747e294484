-- rewritten: messages past retention were left out, or are about to be dropped.
-- The segments, by whose lower bounds the fingerprints of judged rows are kept apart. Decisions are
-- kept longer than the bodies of their segment.
select
    s.family, s.lower_bound, s.upper_bound,
    s.opened_at is not null as opened,
    s.body_dropped_at is not null as dropped,
    s.left_out <> '{}' or s.leaving is not null or s.body_dropped_at is not null as rewritten,
    s.dropped_at is not null or coalesce(s.leaving in ('op_log', 'check_log'), false) as decisions_dropped
from mqpg.audit_segment as s
where s.family in ('log', 'tick', 'delayed')

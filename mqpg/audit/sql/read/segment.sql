-- rewritten: messages past retention were left out, or are about to be dropped.
-- The segments, by whose lower bounds the fingerprints of judged rows are kept apart. Decisions are
-- kept longer than the bodies of their segment.
select
    s.family,
    coalesce(s.lower_bound::text, s.lower_time::text, '-infinity') as lower_bound,
    coalesce(s.upper_bound::text, s.upper_time::text) as upper_bound,
    s.opened_at is not null as opened,
    s.dropped_at is not null as dropped,
    s.left_out <> '{}' or s.leaving is not null or s.dropped_at is not null as rewritten,
    s.decisions_dropped_at is not null or coalesce(s.leaving in ('op_log', 'check_log'), false) as decisions_dropped
from mqpg_audit.segment as s
where s.family in ('log', 'tick', 'delayed')

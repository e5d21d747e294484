-- The age at which a segment of log or tick is closed: the setting `segment_age`. Where closed
-- segments cannot be merged (a reader holds an old snapshot for days), there may be more than twice
-- `segments_most` of them; then it is at least a 28th of the longest retention, so that their
-- number stays bounded in any case.
-- Locks: none. Cost: one look at each segment's row.
create function mqpg._segment_age(family text) returns interval
language sql stable as $$
    select case
        when (
            select count(*) from mqpg.segment s
            where s.family = _segment_age.family and s.closed_at is not null and s.dropped_at is null
        ) > 2 * mqpg._setting('segments_most')::int
            then greatest(mqpg._setting('segment_age')::interval, (select max(t.retention) from mqpg.topic t) / 28)
        else mqpg._setting('segment_age')::interval
    end
$$;

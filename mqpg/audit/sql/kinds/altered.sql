-- altered: rows that an earlier audit had judged, and that mqpg writes once, are not as they were.
select
    null as consumer_group,
    null as topic,
    null::int as queue_id,
    null::bigint as queue_offset,
    null::bigint as message_id,
    r.why as evidence
from altered_rows as r

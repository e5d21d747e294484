-- How many batch ids without a row lie between two others of one segment. A transaction that rolled
-- back leaves such a hole too. A segment that is closed early skips the rest of its ids, so nothing
-- is known of what lies behind its last row. Decisions take their order numbers from the same
-- sequence.
select coalesce(sum(s.missing), 0)::bigint as holes
from (
    select max(g.id) - min(g.id) + 1 - count(*) as missing
    from (
        select b.first_id >> 10 as id from body as b
        union
        select d.order_no from decision as d
    ) as g
    join log_segment as s on g.id >= s.lower_id and g.id < s.upper_id
    cross join horizon as h
    where g.id <= h.floor_id and g.id >= (select j.until_id >> 10 from judged as j)
    group by s.lower_id
) as s

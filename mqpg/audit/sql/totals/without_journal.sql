-- How many offsets each group took whose journal is read, though its consumers took none of them
-- with one. If they took some, the notes say how many they did not.
with taken as (
    select
        p.consumer_group, p.noted,
        greatest(p.next_offset - coalesce(p.start_offset, p.next_offset), 0) as offsets,
        case
            when p.noted then exists (
                select from journal_span as s
                where s.subscription_id = p.subscription_id and s.queue_id = p.queue_id
                    and s.from_offset < p.next_offset
            )
            else p.journal
        end as journal
    from place as p
    join journal_group as g on g.consumer_group = p.consumer_group
)

select t.consumer_group as name, sum(t.offsets)::bigint as rows
from taken as t
group by 1
having sum(t.offsets) > 0 and bool_or(t.noted) and not bool_or(t.journal)

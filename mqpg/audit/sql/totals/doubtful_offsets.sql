-- Groups whose stored offsets belong to another broker only, or to a later incarnation of this one.
-- The second happens when the broker was restored from a backup and the consumer's database was
-- not.
select s.consumer_group, s.foreign_broker, s.incarnation
from (
    select
        o.consumer_group,
        case when not bool_or(o.broker = u.broker_id) then min(o.broker) end as foreign_broker,
        max(case when o.broker = u.broker_id and o.incarnation > u.incarnation then o.incarnation end) as incarnation
    from stored_offset as o
    cross join run as u
    -- A group may read another broker's topics only, or those of this one for the first time.
    where o.broker = u.broker_id or exists (select from applied as a where a.consumer_group = o.consumer_group)
    group by o.consumer_group
) as s
where s.foreign_broker is not null or s.incarnation is not null
order by 1

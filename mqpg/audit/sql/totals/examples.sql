-- The first anomalies of each kind, at most as many as the parameter says.
select r.kind, r.consumer_group, r.topic, r.queue_id, r.queue_offset, r.message_id, r.evidence
from (
    select
        a.*,
        row_number() over (
            partition by a.kind
            order by
                a.topic collate "C" nulls first,
                a.consumer_group collate "C" nulls first,
                a.queue_id nulls first,
                a.queue_offset nulls first,
                a.message_id nulls first
        ) as place
    from anomaly as a
) as r
where r.place <= %s
order by r.kind, r.place

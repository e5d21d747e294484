-- The endings that are no acknowledgement. Most are one.
select e.* from ending as e where e.ending <> 'acked'

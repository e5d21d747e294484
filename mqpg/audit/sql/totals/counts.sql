-- How many anomalies of each kind there are.
select a.kind, count(*) as anomalies from anomaly as a group by 1

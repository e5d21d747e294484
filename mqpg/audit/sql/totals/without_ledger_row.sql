-- How many commits nobody can judge, because their ledger rows may have been deleted.
select m.ledger as name, count(*) as rows
from odd_match as m
cross join run as u
where m.audited and m.state = 'committed' and m.entry is null and m.decided_by <> 'admin'
    and m.decided_at < u.purged_before
group by 1

-- What keeps the half messages of groups with checker `url` waiting: for each ledger that gives no
-- verdict at this moment, why. Either no compensator serves it, and then the text says what to
-- start, or the one that does has reported a problem with its last heartbeat. A compensator that
-- knows the ledger of a new group is about to answer, and so there is no problem for half a minute.
-- Locks: none. Cost: one look at all locks of the server, and the rows of the compensators.
create function mqpg._ledger_problems() returns table (checker_target text, problem text)
language sql stable as $$
    with ledger as materialized (
        select g.checker_target, max(g.created_at) > clock_timestamp() - interval '30 seconds' as is_new
        from mqpg.producer_group g where g.checker = 'url'
        group by 1
    ),
    served as materialized (
        select s.checker_target
        from mqpg._ledgers_served(array(select l.checker_target from ledger l)) as s(checker_target)
    ),
    compensator as materialized (
        select w.detail, w.seen_at from mqpg.worker w
        where w.role = 'compensator' and w.state <> 'stopped'
            and w.seen_at > clock_timestamp() - interval '30 seconds'
    ),
    report as (
        select r.key as checker_target, r.value ->> 'state' as state, r.value ->> 'reason' as reason, w.seen_at
        from compensator w
        cross join lateral jsonb_each(w.detail -> 'ledgers') as r
    )
    select l.checker_target, case
        when s.checker_target is not null then (
            select format('no verdict from the ledger %s: %s', r.checker_target, r.reason) from (
                select x.checker_target, x.state, x.reason from report x
                where x.checker_target = l.checker_target and x.state not in ('standby', 'elsewhere', 'unknown', 'refused', 'yielded')
                order by x.seen_at desc limit 1) r
            where r.state = 'no verdict')
        when not l.is_new or not exists (
            select from compensator w
            where w.detail -> 'known_ledgers' ? mqpg._ledger_variable(l.checker_target)
                and not w.detail -> 'ledgers' ? l.checker_target) then coalesce(
            (select r.reason from report r where r.checker_target = l.checker_target and r.state = 'refused' limit 1),
            (
                select format('no verdict from the ledger %s: %s', r.checker_target, r.reason) from report r
                where r.checker_target = l.checker_target and r.state = 'yielded' limit 1),
            format(
                'no compensator knows the ledger %1$s: start "mqpg worker" with --ledger %1$s=URL or with the variable '
                '%2$s=URL', l.checker_target,
                mqpg._ledger_variable(l.checker_target)))
    end
    from ledger l
    left join served s using (checker_target)
$$;

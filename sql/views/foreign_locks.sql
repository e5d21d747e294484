-- Sessions that hold an advisory lock of mqpg without working in it, and what they stop. Every role
-- that can connect can take such a lock, and PostgreSQL has no way to forbid it. A call of mqpg
-- that holds a lock has also read mqpg's tables in the same transaction, and the seats of the
-- workers and the lock of migrations are held by roles that may call append(). Every other holder is
-- listed.
-- A consumer may end its transaction between two reads of the list of locks, so a lock counts only
-- if the second read, which looks for the tables, still shows it in the same transaction. The end
-- of a transaction gives its locks back one after the other, so a session whose call began within
-- the last second, or ended during the look, is not judged: a later look shows whether it is a
-- stranger.
-- Cost: reads the server's list of locks, and once more if somebody holds such a lock.
create view mqpg.foreign_locks as
with held as materialized (
    select k.classid::bigint as lock_class, k.objid::bigint as lock_key, k.pid, k.virtualtransaction, k.mode
    from pg_locks as k
    where
        k.locktype = 'advisory' and k.granted and k.objsubid = 2
        and k.classid::bigint between 1836150833 and 1836150846
        and k.database = (
            select d.oid from pg_database as d
            where d.datname = current_database()
        )
),

-- The count makes this read come after that of held.
later as materialized (
    select k.virtualtransaction, k.classid::bigint as lock_class, k.objid::bigint as lock_key,
        k.locktype = 'relation' as is_work
    from pg_locks as k
    left join pg_class as c on k.relation = c.oid
    where
        (select count(*) from held) > 0
        and (k.locktype = 'advisory' and k.granted or c.relnamespace = 'mqpg'::regnamespace)
        and k.database = (
            select d.oid from pg_database as d
            where d.datname = current_database()
        )
)

select h.pid, coalesce(a.usename, p.owner) as role, a.application_name as application, a.backend_start as connected_at,
    h.lock_class, h.lock_key,
    case h.lock_class
        when 1836150833 then coalesce(
            case
                when t.name is not null
                    then format(
                        'delivery of queue %s of topic %L to consumer group %L', h.lock_key % 1024 - 1, t.name,
                        s.consumer_group)
            end, 'nothing')
        when 1836150834 then case h.lock_key when 1 then 'check-back of new half messages' else 'nothing' end
        when 1836150835 then 'keep()'
        when 1836150836 then 'migrations'
        when 1836150843 then coalesce(
            case
                when t.name is null then null
                when h.mode = 'ExclusiveLock'
                    then format('delivery of topic %L to consumer group %L', t.name, s.consumer_group)
                else format(
                    'seek() and unpin() of consumer group %L on topic %L, and purge_topic()', s.consumer_group,
                    t.name)
            end, 'nothing')
        when 1836150837 then case h.lock_key
            when 1 then 'appender' when 2 then 'compensator' when 3 then 'keeper' else 'nothing'
        end
        when 1836150838 then 'subscribe(), seek() and retention'
        when 1836150839 then 'recall()'
        when 1836150840 then 'recall() of a message'
        when 1836150841 then 'joining a broadcast group'
        when 1836150842 then 'dropping a segment'
        when 1836150846 then 'check-back by a ledger'
        else 'nothing'
    end as stops,
    case
        when h.pid is null then format('rollback prepared %L;', p.gid)
        else format('select pg_terminate_backend(%s);', h.pid)
    end as remedy
from held as h
left join pg_stat_activity as a on h.pid = a.pid
left join lateral (
    -- A prepared transaction keeps the virtual id of its session until the server restarts.
    select g.gid, g.owner
    from pg_locks as x
    inner join pg_prepared_xacts as g on x.transactionid = g.transaction
    where
        h.pid is null and x.pid is null and x.locktype = 'transactionid'
        and h.virtualtransaction = x.virtualtransaction
    limit 1  -- noqa: AM09
) as p on true
left join mqpg.subscription as s
    on s.subscription_id = case h.lock_class when 1836150833 then h.lock_key / 1024 when 1836150843 then h.lock_key end
left join mqpg.topic as t on s.topic_id = t.topic_id
where case
    when h.lock_class in (1836150836, 1836150837, 1836150842, 1836150846)
        then
            not has_schema_privilege(coalesce(a.usename, p.owner), 'mqpg', 'usage')
            or not exists (
                -- by its name, because another release may give it more arguments
                select from pg_proc as f
                where f.pronamespace = 'mqpg'::regnamespace and f.proname = 'append'
                    and has_function_privilege(coalesce(a.usename, p.owner), f.oid, 'execute')
            )
    else
        h.virtualtransaction not in (
            select w.virtualtransaction from later as w
            where w.is_work
        )
        and (h.virtualtransaction, h.lock_class, h.lock_key) in (
            select w.virtualtransaction, w.lock_class, w.lock_key
            from later as w
        )
        and not coalesce(
            a.state_change > statement_timestamp()
            or (a.state = 'active' and a.query_start > clock_timestamp() - interval '1 second'),
            false
        )
end;
-- pid: Process id of the session; null for a prepared transaction
-- role: The role that holds the lock
-- application: application_name of the session
-- connected_at: When the session began, null where the reader may not see it; the lock is no older
-- lock_class: First key of the advisory lock
-- lock_key: Second key of the advisory lock
-- stops: What cannot go on while the lock is held
-- remedy: The statement that ends it

-- Ledger rows of this database whose local transaction committed longer ago than older_than, and
-- whose half message was never committed: the set difference of protocol T6. state is that of
-- reconcile(). Undecided ones come first, in the order of their ids.
-- The list has no false positives: an open local transaction's row is not visible, a young row is
-- still its producer's concern, and half messages that retention dropped are left out.
-- Locks: none. Cost: the ledger once, an index lookup in op_log for each row, a few lookups for
-- each hit.
create function mqpg._uncommitted_ledger_rows(older_than interval, max_messages int)
returns table (handle text, message_id bigint, topic text, key text, state text)
language plpgsql stable as $$
declare
    v_all boolean := mqpg._has_privilege('operator');
begin
    return query
    with local as (
        select l.handle, case
            when mqpg._is_handle(l.handle)
                then split_part(l.handle, '.', 3)::bigint
        end as id
        from mqpg.ledger l
        where l.entry = 'local' and l.at < clock_timestamp() - mqpg._seconds(_uncommitted_ledger_rows.older_than)
            and split_part(l.handle, '.', 1) = (select b.broker_id from mqpg.broker b)
    ),
    missing as materialized (
        select array_agg(l.handle) as handles from local l
        where l.id is not null
            and not exists (select from mqpg.op_log o where o.message_id = l.id and o.stage = 0 and o.op = 'c')
    )
    select s.handle, coalesce(s.message_id, split_part(s.handle, '.', 3)::bigint), s.topic, s.key,
        case s.state when 'unknown' then 'absent' else s.state end
    from missing m
    cross join lateral mqpg._half_states(coalesce(m.handles, '{}')) as s
    where s.state in ('undecided', 'rolled_back', 'unknown')
        and (v_all or mqpg._has_right('produce', (select r.producer_group_id from mqpg._half_by_id(s.message_id) r)))
    order by s.state <> 'undecided', s.message_id, s.handle
    limit _uncommitted_ledger_rows.max_messages;
end
$$;

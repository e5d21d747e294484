-- Deletes rows of the small tables that are no longer needed: copied messages that need not stay
-- readable any longer (that changes when a tick segment is dropped); ledger rows and parked entries
-- older than 30 days whose half message is decided or gone, at most 10000 of each; notes of which
-- ledgers a producer group had, after a year or with the group; reports of skipped offsets and
-- purges, former dead letters, expired half messages and dropped topics older than the setting
-- `position_jump_keep`.
-- A ledger row of an undecided half message stays, because the verdict depends on it. `more` says that
-- a call had as many as it deletes at most.
-- Locks: the rows.
-- Cost: reads the ledger once, and consume_queue once if messages were copied.
create function mqpg._delete_old_rows()
returns table (action text, family text, segment_no bigint, detail text, more boolean)
language plpgsql as $$
declare
    v_rows bigint;
begin
    if exists (select from mqpg.held) then
        with survivor as materialized (
            select v.message_id
            from (select min(h.message_id) as least, max(h.message_id) as most from mqpg.held h) r,
                mqpg._survivors(r.least, r.most + 1, -1, null) v
        )
        delete from mqpg.held h where not exists (select from survivor s where s.message_id = h.message_id);
        get diagnostics v_rows = row_count;
        if v_rows > 0 then
            return query select 'purged', 'held', null::bigint, format('%s messages', v_rows), false;
        end if;
    end if;
    with position_jump as (
        delete from mqpg.position_jump j
        where j.at < clock_timestamp() - mqpg._setting('position_jump_keep')::interval returning 1
    ),
    letter as (
        delete from mqpg.former_dead_letter f
        where f.left_at < clock_timestamp() - mqpg._setting('position_jump_keep')::interval returning 1
    ),
    expired as (
        delete from mqpg.expired_half e
        where e.expired_at < clock_timestamp() - mqpg._setting('position_jump_keep')::interval returning 1
    ),
    purge as (      -- but for the last one of each subscription, which explains its retries_from
        delete from mqpg.former_setting f
        where f.name = 'retries_from'
            and f.replaced_at < clock_timestamp() - mqpg._setting('position_jump_keep')::interval
            and exists (
                select from mqpg.former_setting n
                where n.subscription_id = f.subscription_id and n.name = 'retries_from' and n.replaced_at > f.replaced_at)
        returning 1
    ),
    topic as (
        delete from mqpg.dropped_topic t
        where t.dropped_at < clock_timestamp() - mqpg._setting('position_jump_keep')::interval returning 1
    )
    select (select count(*) from position_jump) + (select count(*) from letter)
        + (select count(*) from expired) + (select count(*) from purge) + (select count(*) from topic)
        into v_rows;
    if v_rows > 0 then
        return query select 'purged', 'position_jump', null::bigint, format('%s rows', v_rows), false;
    end if;
    perform set_config('mqpg.purging', 'on', true);
    delete from mqpg.ledger l
    where l.handle in (
        select g.handle from mqpg.ledger g
        where g.at < clock_timestamp() - interval '30 days' and not mqpg._is_open_half(g.handle)
        limit 10000);
    get diagnostics v_rows = row_count;
    perform set_config('mqpg.purging', '', true);
    delete from mqpg.producer_ledger p
    where p.noted_at < clock_timestamp() - interval '1 year'
        or p.producer_group_id not in (select g.producer_group_id from mqpg.producer_group g);
    if v_rows > 0 then
        return query select 'purged', 'ledger', null::bigint, format('%s rows', v_rows), v_rows = 10000;
    end if;
    delete from pgmq.a_mqpg_oplog a
    where a.msg_id in (
        select o.msg_id
        from pgmq.a_mqpg_oplog o
        where o.archived_at < clock_timestamp() - interval '30 days' and not mqpg._is_open_half(o.message ->> 'handle')
        limit 10000);
    get diagnostics v_rows = row_count;
    if v_rows > 0 then
        return query select 'purged', 'oplog', null::bigint, format('%s parked entries', v_rows), v_rows = 10000;
    end if;
end
$$;

-- The messages that a block_key subscription can deliver next from a queue, in the order of their
-- offsets: those of its free claims, and fresh ones from `claimed` to `upto`. For each it says how
-- often it was delivered and whether it is blocked, that is, it waits for its back-off, or an
-- earlier message with its key does. `until` is when that back-off ends.
-- Locks: none.
-- Cost: reads the fresh range, and the keys of claims that were returned or ran out. A claim that
-- waits has its key with it.
create function mqpg._candidates_by_key(subscription mqpg.subscription, last_version mqpg.cursor, upto bigint)
returns table (queue_offset bigint, deliveries int, key text, fresh boolean, blocked boolean, until timestamptz)
language plpgsql volatile as $$
declare
    v_now timestamptz := clock_timestamp();
    v_fresh record;
begin
    if _candidates_by_key.upto > (_candidates_by_key.last_version).claimed then
        v_fresh := mqpg._matching_offsets(
            _candidates_by_key.subscription, (_candidates_by_key.last_version).queue_id,
                (_candidates_by_key.last_version).claimed, _candidates_by_key.upto);
    else
        select '{}'::bigint [] as offsets, '{}'::text [] as keys into v_fresh;
    end if;
    return query
    with claim as materialized (
        select c.*::mqpg.claim as claim, c.epoch < 0 and c.lease_until > '-infinity' as known
        from unnest((_candidates_by_key.last_version).claims) as c
    ),
    message as (
        select o.o as queue_offset, (c.claim).attempt as deliveries, (c.claim).key as key, false as fresh,
            (c.claim).lease_until as due
        from claim c
        cross join lateral unnest(coalesce(
            (c.claim).picked,
            array(select generate_series((c.claim).from_offset, (c.claim).to_offset - 1)))) as o
        where c.known
        union all
        select m.queue_offset, (c.claim).attempt, m.key, false, '-infinity'
        from claim c
        cross join lateral mqpg._keyed_messages(
            (_candidates_by_key.subscription).topic_id, (_candidates_by_key.last_version).queue_id, c.claim) as m
        where not c.known
        union all
        select f.o, 0, f.k, true, '-infinity'
        from unnest(v_fresh.offsets, v_fresh.keys) as f(o, k)
    ),
    marked as (
        select m.*, m.due > v_now as waits,
            min(m.queue_offset) filter (where m.due > v_now) over (partition by m.key) as waits_from,
            min(m.due) filter (where m.due > v_now) over (partition by m.key) as waits_until
        from message m
    )
    select k.queue_offset, k.deliveries, k.key, k.fresh,
        k.waits or (k.key is not null and coalesce(k.waits_from < k.queue_offset, false)),
        case when k.waits then k.due else k.waits_until end
    from marked k
    order by k.queue_offset;
end
$$;

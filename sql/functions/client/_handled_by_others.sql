-- The parts of a range of a pinned queue that were delivered to consumers of other names, and those
-- that were finished while the queue was theirs, as far as the cursor's history reaches back. What
-- was finished before that counts as its first owner's.
-- Locks: none. Cost: the queue's cursor versions.
-- Errors: MQ003 (unknown topic), MQ005 (unknown subscription).
create function mqpg._handled_by_others(
    consumer_group text, topic text, queue_id int, consumers text [], from_offset bigint, to_offset bigint
) returns table (owner text, part_from bigint, part_to bigint, finished boolean)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_id int := (mqpg._require_subscription(
        _handled_by_others.consumer_group, _handled_by_others.topic)).subscription_id;
begin
    return query
    with version as (
        select c.owner, c.epoch, c.claims, c.committed, coalesce(lag(c.committed) over (order by c.version), 0) as before
        from mqpg.cursor c
        where c.subscription_id = v_id and c.queue_id = _handled_by_others.queue_id
    ),
    part as (
        select v.owner, v.before as start, v.committed as upto, true as finished from version v
        union
        select v.owner, c.from_offset, c.to_offset, false
        from version v cross join lateral unnest(v.claims) c
        where c.epoch = v.epoch
    )
    select p.owner, greatest(p.start, _handled_by_others.from_offset), least(p.upto, _handled_by_others.to_offset),
        p.finished
    from part p
    where p.owner <> all(_handled_by_others.consumers) and p.start < p.upto
        and p.upto > _handled_by_others.from_offset and p.start < _handled_by_others.to_offset
    order by 2;
end
$$;

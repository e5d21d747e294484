-- Versions of cursors that their actions do not explain. A version breaks at most one rule. Where
-- it breaks several, the first of them counts: reverted, a version is missing, stale_epoch, lease,
-- skipped. by_record, back_by_record: a position jump records that the position was moved on
-- purpose, or the row may have been deleted since. A broadcast group's own row has none, because
-- nobody reads by it.
with recorded as (
    select
        t.*,
        t.at < h.jumps_purged_before or not t.reads or exists (
            select from jump as j
            where t.action in ('moved', 'expired')
                and j.subscription_id = t.subscription_id
                and j.queue_id = t.queue_id
                and (j.why = 'expired') = (t.action = 'expired')
                and not j.back
                and j.from_offset < greatest(t.claimed, t.previous_claimed)
                and j.to_offset > t.previous_committed
        ) as by_record,
        t.at < h.jumps_purged_before or not t.reads or exists (
            select from jump as j
            where t.action in ('moved', 'expired')
                and j.subscription_id = t.subscription_id
                and j.queue_id = t.queue_id
                and j.back
                and j.from_offset <= t.claimed
                and j.to_offset >= t.previous_claimed
        ) as back_by_record,
        -- A queue's rows in a newer slot begin with the state that was carried from an older one.
        t.action = 'carried' and t.step <> 'next' and exists (
            select from unnest(h.dropped_slots) as s (slot)
            where s.slot < t.slot and s.slot > coalesce(t.previous_slot, -1)
        ) as carried
    from transition as t
    cross join horizon as h
),

compared as (
    select
        r.*,
        r.claimed > r.previous_claimed as moved,
        coalesce((select min(c.from_offset) from unnest(r.claims) as c), r.claimed) as first_pending,
        exists (
            select from unnest(r.previous_claims) as p where p.epoch is not distinct from r.epoch
        ) as epoch_held,
        exists (select from unnest(r.claims) as c where c.epoch is not distinct from r.epoch) as epoch_given,
        exists (
            select from unnest(r.claims) as c
            where c.epoch > 0
                and not (
                    c.epoch is not distinct from r.epoch
                    and r.action in ('receive', 'ack_and_receive', 'take_over')
                )
                and not exists (select from unnest(r.previous_claims) as p where p.epoch = c.epoch)
        ) as foreign_claim,
        -- Claims of the version before that are gone or changed: those of other epochs than this
        -- version's, and those whose lease had not ended.
        gone.others as others_gone, gone.claims as ended, gone.leased as leased_gone
    from recorded as r
    cross join lateral (
        select
            count(*) as claims,
            coalesce(bool_or(p.epoch is distinct from r.epoch), false) as others,
            coalesce(bool_or(p.epoch > 0 and nullif(p.lease_until, 'infinity') > r.at), false) as leased
        from unnest(r.previous_claims) as p
        where not exists (
            select from unnest(r.claims) as c
            where (c.epoch, c.from_offset, c.to_offset, c.lease_until, c.settled, c.picked)
                is not distinct from (p.epoch, p.from_offset, p.to_offset, p.lease_until, p.settled, p.picked)
        )
    ) as gone
),

ruled as (
    select
        c.*,
        case
            when c.step = 'next' and (
                (
                    (c.claimed < c.previous_claimed or c.committed < c.previous_committed)
                    and c.action not in ('moved', 'incarnation')
                )
                or (c.action = 'moved' and c.claimed < c.previous_claimed and not c.back_by_record)
            ) then 'went back'
            when not c.carried and c.step = 'first' and c.version > 1 then 'first missing'
            when not c.carried and c.step = 'gap' then 'missing'
            when c.step <> 'next' then null
            when c.action in ('ack', 'nack', 'extend', 'release') and not c.epoch_held
                and c.claimed = c.previous_claimed
                then 'no such epoch'
            when c.action in ('receive', 'ack_and_receive', 'take_over')
                and (not c.epoch_given or c.epoch <= coalesce(c.highest_before, 0))
                then 'no new epoch'
            when c.foreign_claim then 'foreign claim'
            -- A pinned consumer takes its own claims again at any time.
            when c.action in ('receive', 'take_over', 'dead_letter') and c.mode <> 'pinned' and c.leased_gone
                then 'taken over'
            when overlap.now and not overlap.before then 'overlap'
            when c.first_pending <> c.committed then 'moved'
            when c.action in ('ack', 'nack') and (c.moved or c.others_gone) then 'moved'
            when c.action in ('extend', 'release', 'unpin', 'incarnation', 'closed', 'carried')
                and (c.moved or c.done <> 0) then 'moved'
            when c.action = 'ack_and_receive' and (c.done <= 0 or c.ended <> 1) then 'moved'
            when c.action = 'take_over' and (c.done < 0 or (c.on_failure <> 'block_key' and c.done <> 0)) then 'moved'
            when c.action in ('moved', 'expired') and c.done > 0 and not c.by_record and not c.moved_back_later
                then 'moved'
            -- A receive skips what a filter leaves out. It needs no record, because lost judges it.
            when c.action in ('receive', 'filtered', 'dead_letter') and c.done < 0 then 'moved'
            when c.action not in (
                'receive', 'ack_and_receive', 'take_over', 'ack', 'nack', 'extend', 'release', 'filtered', 'expired',
                'dead_letter', 'unpin', 'moved', 'incarnation', 'closed', 'carried'
            ) then 'moved'
        end as rule
    from compared as c
    cross join lateral (
        select
            coalesce(bool_or(pair.now), false) as now,
            coalesce(bool_or(not pair.now), false) as before
        from (
            select true as now, c.claims as claims
            union all
            select false, c.previous_claims
        ) as pair
        where cardinality(pair.claims) > 1 and exists (
            select from unnest(pair.claims) with ordinality
                as a (epoch, from_offset, to_offset, attempt, lease_until, consumer, settled, picked, key, i)
            join unnest(pair.claims) with ordinality
                as b (epoch, from_offset, to_offset, attempt, lease_until, consumer, settled, picked, key, i)
                on b.i > a.i and a.from_offset < b.to_offset and b.from_offset < a.to_offset
            where exists (
                select from (
                    select o.o from unnest(a.picked) as o (o)
                    union all
                    select o.o from generate_series(
                        greatest(a.from_offset, b.from_offset), least(a.to_offset, b.to_offset) - 1
                    ) as o (o)
                    where a.picked is null and o.o <> all(coalesce(a.settled, '{}'))
                ) as held
                where case
                    when b.picked is not null then held.o = any(b.picked)
                    else held.o >= b.from_offset and held.o < b.to_offset
                        and held.o <> all(coalesce(b.settled, '{}'))
                end
            )
        )
    ) as overlap
)

select
    r.consumer_group, r.topic, r.queue_id,
    coalesce(r.previous_committed, r.committed) as queue_offset,
    case
        when r.rule = 'went back' then 'reverted'
        when r.rule in ('no such epoch', 'no new epoch', 'foreign claim') then 'stale_epoch'
        when r.rule in ('taken over', 'overlap') then 'lease'
        else 'skipped'
    end as kind,
    format('version %s (action %s): ', r.version, r.action) || case r.rule
        when 'first missing' then 'the versions before it are missing'
        when 'missing' then format('the versions between %s and it are missing', r.previous_version)
        when 'no such epoch' then format('no claim had epoch %s', r.epoch)
        when 'no new epoch' then format('epoch %s is not a new claim''s', r.epoch)
        when 'foreign claim' then 'it has a claim that no delivery gave'
        when 'taken over' then 'it took over a claim whose lease had not ended'
        when 'overlap' then 'two claims hold the same offset'
        else format(
            case r.rule
                when 'went back' then 'went back from %s (claimed up to %s) to %s (claimed up to %s)'
                else 'moved from %s (claimed up to %s) to %s (claimed up to %s), which its action does not explain'
            end, r.previous_committed, r.previous_claimed, r.committed, r.claimed
        )
    end as evidence
from ruled as r
where r.rule is not null

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
        -- The first version is not where the subscription began, which is also noted beside its cursors.
        coalesce(t.reads and q.start_offset <> case
            when t.version = 1 then t.committed
            when t.previous_version = 1 then t.previous_committed
        end, t.reads and t.version = 1 and t.action = 'subscribe' and q.subscription_id is not null) as elsewhere,
        t.action = 'carried' and t.step <> 'next' and exists (
            select from dropped_slot as s
            where s.slot < t.slot and s.slot > coalesce(t.previous_slot, -1)
        ) as carried
    from transition as t
    left join queue_start as q on q.subscription_id = t.subscription_id and q.queue_id = t.queue_id
    cross join horizon as h
),

-- The claims of a version, beside those of the version before it with the same epoch, which stay as they are
-- but for their offsets and leases. A first delivery counts as the first attempt.
given as (
    select
        t.subscription_id, t.queue_id, t.version, t.slot,
        bool_or(c.epoch is not distinct from t.epoch and (c.attempt = 1 or t.action = 'take_over')) as epoch_given,
        bool_or(
            c.epoch > 0
            and case
                when p.epoch is not null then c.attempt <> p.attempt or c.consumer is distinct from p.consumer
                else c.epoch is distinct from t.epoch or t.action not in ('receive', 'ack_and_receive', 'take_over')
            end
        ) as foreign_claim,
        bool_or(
            c.epoch > 0 and c.epoch is distinct from t.epoch and c.lease_until > t.at
            and c.lease_until < timestamptz '9999-01-01 00:00:00 UTC'
        ) as beside_leased,
        bool_or(c.epoch is not distinct from t.epoch and c.consumer is distinct from t.owner) as not_owned
    from transition as t
    join claim as c using (subscription_id, queue_id, version, slot)
    left join claim as p
        on p.subscription_id = t.subscription_id
        and p.queue_id = t.queue_id
        and p.version = t.previous_version
        and p.slot = t.previous_slot
        and p.epoch = c.epoch
    group by 1, 2, 3, 4
),

-- The claims of the version before. ended: those that are gone or changed. Of them: whether any has
-- another epoch than this version, or a lease that had not ended.
taken as (
    select
        t.subscription_id, t.queue_id, t.version, t.slot,
        bool_or(p.epoch is not distinct from t.epoch) as epoch_held,
        count(*) filter (where c.nth is null) as ended,
        bool_or(c.nth is null and p.epoch is distinct from t.epoch) as others_gone,
        bool_or(
            c.nth is null and p.epoch > 0 and p.lease_until > t.at
            and p.lease_until < timestamptz '9999-01-01 00:00:00 UTC'
        ) as leased_gone
    from transition as t
    join claim as p
        on p.subscription_id = t.subscription_id
        and p.queue_id = t.queue_id
        and p.version = t.previous_version
        and p.slot = t.previous_slot
    left join claim as c
        on c.subscription_id = t.subscription_id
        and c.queue_id = t.queue_id
        and c.version = t.version
        and c.slot = t.slot
        and c.epoch is not distinct from p.epoch
        and c.from_offset = p.from_offset
        and c.to_offset = p.to_offset
        and c.lease_until is not distinct from p.lease_until
        and c.settled is not distinct from p.settled
        and c.picked is not distinct from p.picked
    group by 1, 2, 3, 4
),

crossing as (
    select
        a.subscription_id, a.queue_id, a.version, a.slot,
        greatest(a.from_offset, b.from_offset) as from_offset,
        least(a.to_offset, b.to_offset) as to_offset,
        a.picked, a.settled, b.picked as other_picked, b.settled as other_settled
    from claim as a
    join claim as b
        on b.subscription_id = a.subscription_id
        and b.queue_id = a.queue_id
        and b.version = a.version
        and b.slot = a.slot
        and b.nth > a.nth
        and a.from_offset < b.to_offset
        and b.from_offset < a.to_offset
),

-- The offsets that both claims may hold.
shared as (
    select x.*, o.o as queue_offset
    from crossing as x
    cross join lateral unnest(x.picked) as o (o)
    union all
    select x.*, o.o
    from crossing as x
    cross join lateral generate_series(x.from_offset, x.to_offset - 1) as o (o)
    where x.picked is null and not coalesce(o.o = any(x.settled), false)
),

overlap as (
    select distinct x.subscription_id, x.queue_id, x.version, x.slot
    from shared as x
    where x.queue_offset >= x.from_offset and x.queue_offset < x.to_offset
        and case
            when x.other_picked is not null then x.queue_offset = any(x.other_picked)
            else not coalesce(x.queue_offset = any(x.other_settled), false)
        end
),

compared as (
    select
        r.*,
        r.claimed > r.previous_claimed as moved,
        coalesce(k.epoch_held, false) as epoch_held,
        coalesce(g.epoch_given, false) as epoch_given,
        coalesce(g.foreign_claim, false) as foreign_claim,
        coalesce(g.beside_leased, false) as beside_leased,
        coalesce(g.not_owned, false) as not_owned,
        coalesce(k.ended, 0) as ended,
        coalesce(k.others_gone, false) as others_gone,
        coalesce(k.leased_gone, false) as leased_gone,
        s.back,
        o.version is not null and b.version is null as overlaps
    from recorded as r
    cross join setback as s
    left join given as g using (subscription_id, queue_id, version, slot)
    left join taken as k using (subscription_id, queue_id, version, slot)
    left join overlap as o using (subscription_id, queue_id, version, slot)
    left join overlap as b
        on b.subscription_id = r.subscription_id
        and b.queue_id = r.queue_id
        and b.version = r.previous_version
        and b.slot = r.previous_slot
),

ruled as (
    select
        c.*,
        case
            when c.elsewhere and c.version = 1 then 'elsewhere'
            when c.step = 'next' and not c.elsewhere and (
                (
                    (c.claimed < c.previous_claimed or c.committed < c.previous_committed)
                    and c.action not in ('moved', 'incarnation')
                )
                or (c.action = 'moved' and c.claimed < c.previous_claimed and not c.back_by_record)
            ) then 'went back'
            when c.newest and c.action = 'closed' then 'not carried'
            when not c.carried and c.step = 'first' and c.version > 1 then 'first missing'
            when not c.carried and c.step = 'gap' then 'missing'
            when c.epoch is not null
                and c.action in ('subscribe', 'filtered', 'expired', 'unpin', 'moved', 'incarnation', 'closed', 'carried')
                then 'no such epoch'
            when c.step <> 'next' then case when c.first_pending <> c.committed then 'not pending' end
            -- After the clock had been ahead, all leases of a queue are shortened, which names no delivery.
            when c.action in ('ack', 'nack', 'extend', 'release') and not c.epoch_held
                and c.claimed = c.previous_claimed and not (c.action = 'extend' and c.epoch is null)
                then 'no such epoch'
            when c.action in ('receive', 'ack_and_receive', 'take_over')
                and (not c.epoch_given or c.epoch <= coalesce(c.highest_before, 0))
                then 'no new epoch'
            when c.foreign_claim then 'foreign claim'
            -- A pinned consumer takes its own claims again at any time.
            when c.action in ('receive', 'take_over', 'dead_letter') and c.mode <> 'pinned' and c.leased_gone
                then 'taken over'
            when c.overlaps then 'overlap'
            when c.action in ('receive', 'ack_and_receive', 'take_over') and c.at - c.back > c.single_from and c.beside_leased
                then 'second claim'
            when c.action in ('receive', 'ack_and_receive', 'take_over') and c.mode = 'pinned' and c.queue_id >= 0
                and c.not_owned
                then 'not its owner'
            when c.first_pending <> c.committed or (c.action = 'carried') <> (c.slot <> c.previous_slot) then 'moved'
            when c.action in ('ack', 'nack') and (c.moved or c.others_gone) then 'moved'
            when c.action in ('extend', 'release', 'unpin', 'incarnation', 'closed', 'carried')
                and (c.moved or c.done <> 0) then 'moved'
            when c.action = 'ack_and_receive' and (c.done <= 0 or c.ended <> 1) then 'moved'
            when c.action = 'take_over' and (
                c.done < 0 or (c.on_failure <> 'block_key' and c.at - c.back > c.failures_from and c.done <> 0)
            ) then 'moved'
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
)

select
    r.subscription_id, r.consumer_group, r.topic, r.queue_id, r.version, r.action,
    coalesce(r.previous_committed, r.committed) as queue_offset,
    case
        when r.rule = 'went back' then 'reverted'
        when r.rule in ('no such epoch', 'no new epoch', 'foreign claim') then 'stale_epoch'
        when r.rule in ('taken over', 'overlap', 'second claim', 'not its owner') then 'lease'
        else 'skipped'
    end as kind,
    format('version %s (action %s): ', r.version, r.action) || case r.rule
        when 'first missing' then 'the versions before it are missing'
        when 'not carried' then 'no version in a newer slot continues it'
        when 'elsewhere' then format('its position is %s, and the subscription began elsewhere', r.committed)
        when 'not pending' then format('its position is %s, and the first pending offset %s', r.committed, r.first_pending)
        when 'missing' then format('the versions between %s and it are missing', r.previous_version)
        when 'no such epoch' then format('no claim had epoch %s', r.epoch)
        when 'no new epoch' then format('epoch %s is not a new claim''s', r.epoch)
        when 'foreign claim' then 'it has a claim that no delivery gave'
        when 'taken over' then 'it took over a claim whose lease had not ended'
        when 'overlap' then 'two claims hold the same offset'
        when 'second claim' then 'it has a claim beside one whose lease had not ended'
        when 'not its owner' then 'its consumer does not own the queue'
        else format(
            case r.rule
                when 'went back' then 'went back from %s (claimed up to %s) to %s (claimed up to %s)'
                else 'moved from %s (claimed up to %s) to %s (claimed up to %s), which its action does not explain'
            end, r.previous_committed, r.previous_claimed, r.committed, r.claimed
        )
    end as evidence
from ruled as r
where r.rule is not null

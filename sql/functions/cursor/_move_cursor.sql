-- Moves one queue of a subscription to an offset and notes in the table position_jump what it
-- skips. A seek moves forward or back and ends all claims. Every other reason (purge, age, size)
-- only moves forward: a claim keeps the messages from to_offset on, and its receipt stays valid.
-- Returns how many messages are skipped: those not delivered yet, and those delivered but neither
-- acknowledged nor nacked.
-- Locks: for a seek back the queue's row in queue_start; the caller holds the queue's cursor lock.
-- Cost: one cursor version, and one row for each skipped range.
create function mqpg._move_cursor(subscription mqpg.subscription, queue_id int, to_offset bigint, why text)
returns bigint
language plpgsql as $$
declare
    v_id int := (_move_cursor.subscription).subscription_id;
    v_cursor mqpg.cursor := mqpg._cursor(v_id, _move_cursor.queue_id);
    v_seek boolean := _move_cursor.why = 'seek';
    v_claim mqpg.claim;
    v_kept mqpg.claim [] := '{}';
    v_part record;
    v_left_out bigint := 0;
begin
    if v_cursor.version is null
        or (v_seek and v_cursor.claims = '{}' and v_cursor.claimed = _move_cursor.to_offset)
        or (not v_seek and v_cursor.committed >= _move_cursor.to_offset) then
        return 0;
    end if;
    if not v_seek then
        foreach v_claim in array v_cursor.claims loop
            v_claim.from_offset := greatest(v_claim.from_offset, _move_cursor.to_offset);
            if v_claim.from_offset < v_claim.to_offset then
                v_claim := mqpg._shrink_claim(v_claim, '{}');
                v_kept := v_kept || case when v_claim.epoch is not null then array[v_claim] else '{}' end;
            end if;
        end loop;
    end if;
    -- no consumer reads by a broadcast group's own row
    if (_move_cursor.subscription).mode <> 'broadcast' or (_move_cursor.subscription).member <> '' then
        for v_part in
            select r.from_offset, least(r.to_offset, _move_cursor.to_offset) as to_offset, r.n
            from (
                select (c).from_offset, (c).to_offset, case
                    when (c).picked is not null
                        then (select count(*) from unnest((c).picked) p where p < _move_cursor.to_offset)
                    else least((c).to_offset, _move_cursor.to_offset) - (c).from_offset
                        - (select count(*) from unnest((c).settled) s where s < _move_cursor.to_offset)
                end as n
                from unnest(v_cursor.claims) c
                union all
                select v_cursor.claimed, _move_cursor.to_offset, _move_cursor.to_offset - v_cursor.claimed
            ) as r
            where r.from_offset < _move_cursor.to_offset
        loop
            v_left_out := v_left_out + v_part.n;
            perform mqpg._note_position_jump(
                _move_cursor.subscription, _move_cursor.queue_id, v_part.from_offset, v_part.to_offset,
                _move_cursor.why);
        end loop;
        if v_seek and _move_cursor.to_offset < v_cursor.claimed then
            delete from mqpg.position_jump j
            where j.subscription_id = v_id and j.queue_id = _move_cursor.queue_id and not j.back
                and j.from_offset >= _move_cursor.to_offset;
            update mqpg.position_jump j set to_offset = _move_cursor.to_offset
            where j.subscription_id = v_id and j.queue_id = _move_cursor.queue_id and not j.back
                and j.to_offset > _move_cursor.to_offset;
            perform mqpg._note_position_jump(
                _move_cursor.subscription, _move_cursor.queue_id, _move_cursor.to_offset, v_cursor.claimed,
                _move_cursor.why, true);
            -- While no journal is kept, none will have what comes again.
            update mqpg.queue_start s set journal = s.journal * int8multirange(int8range(null, _move_cursor.to_offset))
            where s.subscription_id = v_id and s.queue_id = _move_cursor.queue_id
                and not upper_inf(s.journal) and upper(s.journal) > _move_cursor.to_offset;
        end if;
    end if;
    perform mqpg._write_cursor(
        v_cursor, mqpg._action('moved'), null,
        case when v_seek then _move_cursor.to_offset else greatest(v_cursor.claimed, _move_cursor.to_offset) end,
        v_cursor.owner, v_kept);
    return v_left_out;
end
$$;

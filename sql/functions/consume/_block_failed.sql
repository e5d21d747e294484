-- A nack with on_failure block_key or block_queue. A failed message stays at its place until its
-- back-off ends. Messages that must not overtake it are returned with it, and their attempt does
-- not count: with block_queue all later messages of the delivery, with block_key the later ones
-- with its key. So an attempt counts only for the first failed message of the queue, or of a key. A
-- message whose attempts are used up becomes a dead letter and blocks nothing: what was behind it is
-- returned all the same, because its consumer did not go on, but may be received at once. With `final`
-- nothing is returned.
-- Returns what remains of the claim (null: nothing), the claims that wait, and the offsets whose
-- attempt counts.
-- Locks: none.
-- Cost: a look at each run of the delivery, with block_key also at its keys; one row for each dead
-- letter.
create function mqpg._block_failed(
    subscription mqpg.subscription, last_version mqpg.cursor, claim mqpg.claim, message_ids bigint [], reason text,
    delay interval, final boolean, out left_over mqpg.claim, out waiting mqpg.claim [],
    out failed bigint []
)
language plpgsql as $$
declare
    v_by_key boolean := (_block_failed.subscription).on_failure = 'block_key';
    v_attempt int := (_block_failed.claim).attempt;
    v_is_last boolean := _block_failed.final or v_attempt >= (_block_failed.subscription).max_attempts;
    v_until timestamptz := mqpg._back_off_until(_block_failed.subscription, v_attempt, _block_failed.delay);
    v_message record;
    v_behind boolean;
    v_nacked boolean;
    v_dead text [] := '{}';
    v_gone bigint [] := '{}';
    v_offsets bigint [] := '{}';
    v_deliveries int [] := '{}';
    v_keys text [] := '{}';
    v_untils timestamptz [] := '{}';
begin
    failed := '{}';
    for v_message in
        select k.* from mqpg._keyed_messages(
            (_block_failed.subscription).topic_id, (_block_failed.last_version).queue_id, _block_failed.claim) k
    loop
        v_behind := case
            when v_by_key then coalesce(v_message.key = any(v_keys || v_dead), false)
            else v_offsets <> '{}' or v_dead <> '{}'
        end;
        v_nacked := v_message.message_id = any(_block_failed.message_ids);
        continue when not v_behind and not v_nacked;
        v_gone := v_gone || v_message.queue_offset;
        if v_nacked and v_is_last then
            perform mqpg._bury(
                (_block_failed.subscription).subscription_id, array[v_message.message_id], array[v_message.deliver_id],
                array[v_attempt], _block_failed.reason, (_block_failed.claim).consumer);
            if not _block_failed.final then
                v_dead := array_append(v_dead, v_message.key);
            end if;
            continue;
        end if;
        if not v_behind then
            failed := failed || v_message.queue_offset;
        end if;
        v_offsets := v_offsets || v_message.queue_offset;
        v_deliveries := v_deliveries || case when v_behind then v_attempt - 1 else v_attempt end;
        v_keys := array_append(v_keys, case when v_by_key and not v_is_last then v_message.key end);
        v_untils := v_untils || case
            when v_is_last or (v_behind and not v_by_key) then '-infinity' else v_until
        end;
    end loop;
    left_over := mqpg._shrink_claim(_block_failed.claim, v_gone);
    waiting := mqpg._pack_claims((_block_failed.last_version).version, v_offsets, v_deliveries, v_keys, v_untils);
end
$$;

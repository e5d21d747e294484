-- A dead letter that was discarded, where the message was not delivered again after that.
-- Locks: none. Cost: one index lookup; where it was discarded, its deliveries.
create function mqpg._why_former_letter(
    subscription mqpg.subscription, queue_id int, queue_offset bigint, message_id bigint
) returns table (cause text, detail jsonb, remedy jsonb)
language plpgsql stable as $$
declare
    v_letter mqpg.former_dead_letter;
begin
    select f.* into v_letter from mqpg.former_dead_letter f
    where f.message_id = _why_former_letter.message_id
        and f.subscription_id = (_why_former_letter.subscription).subscription_id
    order by f.left_at desc limit 1;
    if v_letter.fate is distinct from 'discarded' or mqpg._delivered_since(v_letter.subscription_id,
        _why_former_letter.queue_id, _why_former_letter.queue_offset, v_letter.left_at) then
        return;
    end if;
    cause := 'discarded';
    detail := jsonb_strip_nulls(jsonb_build_object(
        'consumer_group', (_why_former_letter.subscription).consumer_group, 'at', v_letter.left_at, 'by', v_letter."by",
        'reason', v_letter.reason));
    return next;
end
$$;

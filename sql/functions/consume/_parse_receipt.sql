-- The parts of a receipt that this broker issued. Any other text is refused in the same words, so
-- that nobody learns from the refusal which part was wrong, nor what exists.
-- Arguments:
--   receipt: the text.
--   secrets: those of the subscription that it names; null where there is none.
-- Locks: none. Cost: one hash, or more after the secret was replaced.
-- Errors: MQ001 (null), MQ007 (malformed, changed, or of another broker), MQ025.
create function mqpg._parse_receipt(
    receipt text, secrets bytea [], out queue_id int, out epoch bigint, out from_offset bigint, out to_offset bigint
)
language plpgsql stable as $$
declare
    v_signed text := left(_parse_receipt.receipt, -33);     -- without the dot and the mac
    v_parts text [];
begin
    if _parse_receipt.receipt is null then
        raise exception using errcode = 'MQ001', message = 'receipt must not be null';
    end if;
    if (v_signed || '.' || mqpg._receipt_mac(_parse_receipt.secrets[1], v_signed) = _parse_receipt.receipt) is not true
        and not exists (
            select from unnest(_parse_receipt.secrets[2:]) as s(secret)
            where v_signed || '.' || mqpg._receipt_mac(s.secret, v_signed) = _parse_receipt.receipt)
    then
        -- A caller without any right to receive learns no more than of a receipt of another group.
        if not mqpg._has_privilege('receive') then
            perform mqpg._refuse('may not acknowledge for the consumer group of this receipt',
                'grant_receive', '{"consumer_group": null, "topic": null}');
        end if;
        perform mqpg._require_fresh(null);
        raise exception using errcode = 'MQ007', message = format(
            '%L is not a receipt that was issued here, or its subscription has ended',
            left(_parse_receipt.receipt, 200));
    end if;
    v_parts := string_to_array(v_signed, '.');
    queue_id := v_parts[2];
    epoch := v_parts[3];
    from_offset := v_parts[4];
    to_offset := v_parts[5];
end
$$;

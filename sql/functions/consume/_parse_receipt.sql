-- The parts of a receipt.
-- Locks: none. Cost: one regular expression.
-- Errors: MQ001 (null), MQ007 (malformed).
create function mqpg._parse_receipt(
    receipt text, out subscription_id int, out queue_id int, out epoch bigint, out from_offset bigint,
    out to_offset bigint
)
language plpgsql immutable as $$
begin
    if _parse_receipt.receipt is null then
        raise exception using errcode = 'MQ001', message = 'receipt must not be null';
    end if;
    if _parse_receipt.receipt !~ '^[0-9]{1,9}[.](-1|[0-9]{1,4})[.][0-9]{1,18}[.][0-9]{1,18}[.][0-9]{1,18}$' then
        raise exception using errcode = 'MQ007',
            message = format('%L is not a receipt', left(_parse_receipt.receipt, 100));
    end if;
    subscription_id := split_part(_parse_receipt.receipt, '.', 1)::int;
    queue_id := split_part(_parse_receipt.receipt, '.', 2)::int;
    epoch := split_part(_parse_receipt.receipt, '.', 3)::bigint;
    from_offset := split_part(_parse_receipt.receipt, '.', 4)::bigint;
    to_offset := split_part(_parse_receipt.receipt, '.', 5)::bigint;
end
$$;
comment on function mqpg._parse_receipt(text) is 'Internal: parts of a receipt';

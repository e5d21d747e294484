-- Refuses a receipt that no delivery of its queue had: MQ007 (another broker's, a changed one, or one whose transaction
-- rolled back). The version of the cursor that issued it tells; where that is dropped, nothing is refused.
-- Locks: none. Cost: one cursor version; not for a receipt whose claim is as it was issued.
create function mqpg._check_issued(
    receipt text, subscription_id int, queue_id int, epoch bigint, from_offset bigint, to_offset bigint
) returns void
language plpgsql as $$
begin
    if exists (
        select from mqpg.cursor c
        where c.subscription_id = _check_issued.subscription_id and c.queue_id = _check_issued.queue_id
            and c.version = _check_issued.epoch / 1048576
            and not exists (
                select from unnest(c.claims) k
                where k.epoch = _check_issued.epoch and k.from_offset = _check_issued.from_offset
                    and k.to_offset = _check_issued.to_offset)
    ) then
        raise exception using errcode = 'MQ007', message = format(
            'receipt %L was not issued here, or by a transaction that rolled back', _check_issued.receipt);
    end if;
end
$$;
comment on function mqpg._check_issued(text, int, int, bigint, bigint, bigint)
    is 'Internal: refuse a receipt that was not issued so';

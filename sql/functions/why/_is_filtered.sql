-- Whether a subscription passed an offset without a delivery because its filter did not choose the
-- message. A filter that was replaced counts too. Where the history of the cursor is dropped, it is
-- so only if no filter that the subscription ever had chooses the message.
-- Locks: none. Cost: that of _deliveries_of(); parses the payload for each filter, at most 100.
create function mqpg._is_filtered(
    subscription mqpg.subscription, queue_id int, queue_offset bigint, key text, tag text, headers jsonb, payload json
) returns boolean
language plpgsql stable as $$
declare
    v_all boolean;
    v_none boolean;
begin
    select bool_and(m.chosen), not bool_or(m.chosen) into v_all, v_none
    from (
        select mqpg._matches(f.filter, f.tags, _is_filtered.key, _is_filtered.tag, _is_filtered.headers,
            _is_filtered.payload) as chosen
        from (
            select (_is_filtered.subscription).filter, (_is_filtered.subscription).tags
            union all
            (
                select o.filter, o.tags from mqpg.former_filter o
                where o.subscription_id = (_is_filtered.subscription).subscription_id
                order by o.replaced_at desc limit 100)
        ) as f
    ) as m;
    if v_all or exists (
        select from mqpg._deliveries_of(
            (_is_filtered.subscription).subscription_id, _is_filtered.queue_id, _is_filtered.queue_offset)) then
        return false;
    end if;
    return v_none or (
        select c.committed <= _is_filtered.queue_offset from mqpg.cursor c
        where c.subscription_id = (_is_filtered.subscription).subscription_id and c.queue_id = _is_filtered.queue_id
        order by c.version limit 1);
end
$$;

-- The producer group with that name.
-- Locks: none. Cost: one index lookup.
create function mqpg._producer_group(producer_group text) returns mqpg.producer_group
language plpgsql stable as $$
declare
    v_group mqpg.producer_group;
begin
    select g.* into v_group from mqpg.producer_group g where g.name = _producer_group.producer_group;
    if not found then
        perform mqpg._require_name('producer_group', _producer_group.producer_group);
        perform mqpg._require_fresh(null);
        raise exception using errcode = 'MQ004',
            message = format('producer group %L does not exist', _producer_group.producer_group),
            detail = mqpg._remedy('create_producer_group', jsonb_build_object(
                'producer_group', _producer_group.producer_group))::text,
            hint = 'create_producer_group() creates it.';
    end if;
    return v_group;
end
$$;

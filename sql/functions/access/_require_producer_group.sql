-- The producer group with that name, for a caller that may produce for it. Only a caller that may
-- do so for all groups learns that there is no such group.
-- Locks: none. Cost: one index lookup; one look at role_right if the row notes no role of the
-- caller.
create function mqpg._require_producer_group(producer_group text) returns mqpg.producer_group
language plpgsql stable as $$
declare
    v_group mqpg.producer_group;
begin
    select g.* into v_group from mqpg.producer_group g where g.name = _require_producer_group.producer_group;
    if not found then
        perform mqpg._require_name('producer_group', _require_producer_group.producer_group);
    end if;
    if mqpg._is_among(v_group.producers) or mqpg._has_right('produce', v_group.producer_group_id) then
        if v_group.producer_group_id is null then
            v_group := mqpg._producer_group(_require_producer_group.producer_group);    -- raises
        end if;
        return v_group;
    end if;
    perform mqpg._refuse(
        format('may not produce for producer group %L', _require_producer_group.producer_group),
        'grant_produce', jsonb_build_object('producer_group', _require_producer_group.producer_group));
end
$$;

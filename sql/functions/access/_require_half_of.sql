-- Raises for a caller that may not produce for the producer group of a half message (null: it is
-- unknown), else returns true. Nobody guesses a handle, so a caller with the right to some group
-- learns which of its handles are unknown, and one without any learns nothing.
-- Locks: none. Cost: negligible for the owner; else one index lookup, and a look at role_right if
-- the row notes no role of the caller.
create function mqpg._require_half_of(producer_group_id int) returns boolean
language plpgsql stable as $$
declare
    v_producers mqpg.grantee [];
begin
    if mqpg._may('{}') then
        return true;
    end if;
    select g.producers into v_producers from mqpg.producer_group g
    where g.producer_group_id = _require_half_of.producer_group_id;
    if mqpg._may(v_producers) then
        return true;
    end if;
    if not (case
        when _require_half_of.producer_group_id is null then mqpg._has_privilege('produce', 'operator', 'worker')
        else mqpg._has_right('produce', _require_half_of.producer_group_id)
    end) then
        perform mqpg._refuse('may not decide half messages of this producer group',
            'grant_produce', '{"producer_group": null}');
    end if;
    return true;
end
$$;

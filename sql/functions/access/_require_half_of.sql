-- Refuses a caller that may not produce for the producer group of a half message. Nobody guesses a
-- handle, so a caller with the right to some group learns which of its handles are unknown, and one
-- without any learns nothing.
-- Arguments:
--   producer_group_id: the group; null where the half message is unknown.
-- Locks: none. Cost: one look at role_right; negligible for the owner.
-- Errors: MQ025.
create function mqpg._require_half_of(producer_group_id int) returns void
language plpgsql stable as $$
begin
    if mqpg._is_owner() then
        return;
    end if;
    if not (case
        when _require_half_of.producer_group_id is null then mqpg._has_privilege('produce', 'operator', 'worker')
        else mqpg._holds('produce', _require_half_of.producer_group_id)
    end) then
        perform mqpg._refuse('may not decide half messages of this producer group',
            'grant_produce(producer_group, role)');
    end if;
end
$$;
comment on function mqpg._require_half_of(int) is 'Internal: refuse a caller that may not produce for a half''s group';

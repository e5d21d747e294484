-- Raises MQ026 if more than max_undecided half messages of a producer group were undecided when they
-- were last counted.
-- Locks: none. Cost: one lookup.
create function mqpg._require_room(producer_group text) returns void
language plpgsql stable as $$
declare
    v_most int := (
        select g.max_undecided from mqpg.producer_group g
        where g.name = _require_room.producer_group and g.overfull_at is not null);
begin
    if v_most is not null then
        raise exception using errcode = 'MQ026', message = format(
            'producer group %L has more than %s undecided half messages', _require_room.producer_group, v_most),
            hint = 'Views half_pending and half_parked say what they wait for. Decide them (recover() of the '
                'producers, a compensator, settle()), or raise max_undecided with alter_producer_group().';
    end if;
end
$$;

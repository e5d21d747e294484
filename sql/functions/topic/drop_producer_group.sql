-- Drops a producer group. It raises while one of the group's half messages is undecided, because no
-- checker could be asked about it any more. prepare() takes no lock on the group: a half message
-- whose transaction is open during the drop stays undecided, and the view half_pending shows it
-- without a group, until its producer or settle() decides it.
-- Arguments:
--   producer_group: name of the group.
-- Locks: the group's row, up to the setting lock_timeout.
-- Cost: the undecided half messages.
-- Errors: MQ004 (unknown group), MQ018 (undecided half messages), 55P03.
create function mqpg.drop_producer_group(producer_group text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
    v_checked boolean := mqpg._require_privilege('operator');
    v_group mqpg.producer_group := mqpg._producer_group(drop_producer_group.producer_group);
    v_timeout text := mqpg._apply_lock_timeout();
begin
    perform from mqpg.producer_group g where g.producer_group_id = v_group.producer_group_id for update;
    if not found then
        raise exception using errcode = 'MQ004', message = format(
            'producer group %L was dropped meanwhile', drop_producer_group.producer_group);
    end if;
    if exists (select from mqpg.half_pending h where h.producer_group = v_group.name)
        or exists (select from mqpg.half_parked h where h.producer_group = v_group.name) then
        raise exception using errcode = 'MQ018',
            message = format('producer group %L has undecided half messages', v_group.name),
            hint = 'Decide them first, with settle() (mqpg half settle). The views half_pending and half_parked '
                'show them.';
    end if;
    delete from mqpg.producer_group g where g.producer_group_id = v_group.producer_group_id;
    perform set_config('lock_timeout', v_timeout, true);
end
$$;

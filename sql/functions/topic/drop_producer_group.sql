-- Drops a producer group; refuses (MQ018) while one of its halves is undecided, since nobody could be asked. prepare()
-- takes no lock on the group: a half whose transaction is open meanwhile stays undecided, in the view half_pending
-- without a group, until its producer decides or settle() does.
-- Locks: the group's row. Cost: a look at the undecided halves. Errors: MQ004, MQ018.
create function mqpg.drop_producer_group(producer_group text) returns void
language plpgsql as $$
declare
    v_group mqpg.producer_group := mqpg._producer_group(drop_producer_group.producer_group);
begin
    perform from mqpg.producer_group g where g.producer_group_id = v_group.producer_group_id for update;
    if exists (select from mqpg.half_pending h where h.producer_group = v_group.name)
        or exists (select from mqpg.half_parked h where h.producer_group = v_group.name) then
        raise exception using errcode = 'MQ018',
            message = format('producer group %L has undecided half messages', v_group.name),
            hint = 'Commit, roll back or settle them first; the views half_pending and half_parked list them.';
    end if;
    delete from mqpg.producer_group g where g.producer_group_id = v_group.producer_group_id;
end
$$;
comment on function mqpg.drop_producer_group(text) is 'Drop a producer group without undecided halves';

-- Gives a role a right to what role_right names by these ids, and the privileges of PostgreSQL that
-- it needs. Repeated it changes nothing.
-- Locks: those of _begin_grant() and GRANT, and the rows that note the right.
-- Cost: one row, and the commands of _sync_privileges().
create function mqpg._grant(
    role text, privilege text, topic_id int default null, producer_group_id int default null,
    subscription_id int default null, consumer_group text default null
) returns void
language plpgsql as $$
declare
    v_role oid := mqpg._require_role(_grant.role);
begin
    perform mqpg._begin_grant();
    insert into mqpg.role_right (
        role, privilege, topic_id, producer_group_id, subscription_id, consumer_group, granted_by)
    values (
        v_role, _grant.privilege, _grant.topic_id, _grant.producer_group_id, _grant.subscription_id,
        _grant.consumer_group, mqpg._caller())
    on conflict do nothing;
    perform mqpg._sync_privileges(v_role);
    perform mqpg._note_right(
        _grant.privilege, _grant.topic_id, _grant.producer_group_id, _grant.subscription_id);
end
$$;

-- Takes a right of _grant() from a role, and the privileges of PostgreSQL that its other rights do
-- not need. Returns whether the role had this right. Only a right that was granted in the same
-- words is taken: a role that has it for all topics, or through another role, keeps it.
-- Locks: those of _begin_grant() and REVOKE, and the rows that note the right.
-- Cost: one row, and the commands of _sync_privileges().
create function mqpg._revoke(
    role text, privilege text, topic_id int default null, producer_group_id int default null,
    subscription_id int default null, consumer_group text default null
) returns boolean
language plpgsql as $$
declare
    v_role oid := mqpg._require_role(_revoke.role);
    v_had boolean;
begin
    perform mqpg._begin_grant();
    delete from mqpg.role_right r
    where r.role::oid = v_role and r.privilege = _revoke.privilege
        and r.topic_id is not distinct from _revoke.topic_id
        and r.producer_group_id is not distinct from _revoke.producer_group_id
        and r.subscription_id is not distinct from _revoke.subscription_id
        and r.consumer_group is not distinct from _revoke.consumer_group;
    v_had := found;
    perform mqpg._sync_privileges(v_role);
    perform mqpg._note_right(
        _revoke.privilege, _revoke.topic_id, _revoke.producer_group_id, _revoke.subscription_id);
    return v_had;
end
$$;

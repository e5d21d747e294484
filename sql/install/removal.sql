-- Drops the schemas of mqpg with all messages, and what mqpg made in the schema pgmq. The schema pgmq
-- itself goes only if it has no other queue, and belongs to the owner of the schema mqpg, who does
-- not log in: any other role may have made it before mqpg came.
-- Locks: those of its DDL. Cost: runs once.
do $mqpg$
declare
    v_owner record;
    v_queues boolean;
begin
    select n.nspowner as oid, r.rolname, r.rolcanlogin into v_owner
    from pg_namespace n inner join pg_roles r on r.oid = n.nspowner
    where n.nspname = 'mqpg';
    drop schema mqpg cascade;    -- before the queue, which its views read
    drop schema if exists mqpg_retired cascade;
    if (select n.nspowner = v_owner.oid from pg_namespace n where n.nspname = 'mqpg_audit') then
        drop schema mqpg_audit cascade;
    end if;
    if to_regclass('pgmq.q_mqpg_oplog') is not null then
        perform pgmq.drop_queue(text 'mqpg_oplog');
    end if;
    -- What keeps the owner from being dropped.
    if not v_owner.rolcanlogin then
        execute format('alter default privileges for role %I grant execute on functions to public', v_owner.rolname);
    end if;
    if (select n.nspowner <> v_owner.oid from pg_namespace n where n.nspname = 'pgmq') then
        execute format('revoke all on all tables in schema pgmq from %I', v_owner.rolname);
        execute format('revoke all on all sequences in schema pgmq from %I', v_owner.rolname);
        execute format('revoke all on schema pgmq from %I', v_owner.rolname);
    elsif not v_owner.rolcanlogin and to_regclass('pgmq.meta') is not null
        and not exists (select from pg_extension e where e.extname = 'pgmq') then
        select exists (select from pgmq.meta) into v_queues;
        if not v_queues then
            drop schema pgmq cascade;
        end if;
    end if;
end
$mqpg$;

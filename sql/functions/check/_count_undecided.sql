-- Notes which producer groups have more undecided half messages than max_undecided, parked ones
-- included. prepare() then raises MQ026. Half messages that are not in the check queue yet, those of
-- about the last second, are not counted.
-- Only groups with so many entries are counted. Those of decided half messages are deleted, so that
-- no entry is looked at often.
-- Locks: entries and group rows that no other transaction has locked.
-- Cost: an index range for each group, at most max_undecided entries; for groups over the limit also
-- a lookup for each entry.
create function mqpg._count_undecided() returns void
language plpgsql as $$
declare
    v_group record;
    v_over boolean;
begin
    for v_group in
        select g.producer_group_id, g.name, g.max_undecided, g.overfull_at
        from mqpg.producer_group g
        where g.overfull_at is not null or exists (
            select from (
                select from pgmq.q_mqpg_oplog q where q.message ->> 'producer_group' = g.name
                union all
                select from pgmq.a_mqpg_oplog a where a.message ->> 'producer_group' = g.name
            ) as entry
            offset g.max_undecided limit 1)
    loop
        delete from pgmq.q_mqpg_oplog d
        where d.msg_id in (
            select q.msg_id from pgmq.q_mqpg_oplog q
            where q.message ->> 'producer_group' = v_group.name
                and mqpg._is_decided_half((q.message ->> 'message_id')::bigint)
            for update skip locked);
        v_over := v_group.max_undecided < (
            select count(*) from pgmq.q_mqpg_oplog q where q.message ->> 'producer_group' = v_group.name
        ) + (
            select count(*) from pgmq.a_mqpg_oplog a
            where a.message ->> 'producer_group' = v_group.name
                and not mqpg._is_decided_half((a.message ->> 'message_id')::bigint));
        if v_over or v_group.overfull_at is not null then
            update mqpg.producer_group g set overfull_at = case when v_over then clock_timestamp() end
            where g.producer_group_id = (
                select l.producer_group_id from mqpg.producer_group l
                where l.producer_group_id = v_group.producer_group_id
                for no key update skip locked);
        end if;
    end loop;
end
$$;

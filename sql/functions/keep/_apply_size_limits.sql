-- Compares the broker and its topics with their limits of size, and notes in topic.full_of which of them
-- take no more messages: send(), send_batch(), prepare() and prepare_batch() then raise MQ028. All else
-- works. The keeper process calls it every two seconds, and keep() too.
-- The size of the broker is that of its tables and their indexes. The size of a topic is about that of
-- its bodies in the log, undecided ones too, until retention drops them.
-- Locks: rows of topics that change, skipped if they are locked; each table for a moment, waited for
-- at most a second.
-- Cost: two lookups if there is no limit. For the broker one look at each table's files; for topics
-- 200 pages of each segment that is not closed.
create function mqpg._apply_size_limits() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
    v_most bigint := mqpg._setting('max_bytes')::bigint;
    v_sizes jsonb := '{}';
begin
    perform mqpg._require_privilege('worker');
    if v_most = 0 and not exists (
        select from mqpg.topic t where t.max_bytes is not null or t.full_of is not null) then
        return;
    end if;
    if exists (select from mqpg.topic t where t.max_bytes is not null) then
        perform mqpg._measure_segments();
        v_sizes := mqpg._topic_sizes();
    end if;
    perform mqpg._note_full(o.topic_id, o.new)
    from (
        select t.topic_id, t.full_of as old, case
                when b.is_full then 'broker'
                when t.max_bytes <= coalesce((v_sizes -> t.topic_id::text)::bigint, 0) then 'topic'
            end as new
        from mqpg.topic t
        cross join (
            select v_most > 0 and v_most <= sum(pg_total_relation_size(c.oid)) as is_full
            from pg_class c
            where c.relnamespace = 'mqpg'::regnamespace and c.relkind = 'r' and v_most > 0
        ) as b
    ) as o
    where o.old is distinct from o.new;
exception when lock_not_available then
    null;    -- a table is being dropped; the next call measures
end
$$;

-- Looks up what a merge must keep of topics that are past retention (I11), and which messages of
-- the segments may still get a decision. It is one statement, so that it sees a message on its way
-- from one state to the next in one of them. Later no other message of these segments becomes a
-- survivor, because the oldest offsets of the topics were raised before. A merge with more than
-- 10000 messages that may still be decided is given up.
-- Locks: none.
-- Cost: for a log segment its half messages, delayed, and the topics' rows in consume_queue.
create function mqpg._find_needed(merge mqpg.segment_merge)
returns table (action text, family text, segment_no bigint, detail text)
language plpgsql as $$
declare
    v_merge mqpg.segment_merge := _find_needed.merge;
    v_from bigint;
    v_to bigint;
begin
    if v_merge.family = 'log' then
        v_from := v_merge.lower_bound::bigint * 1024;
        v_to := v_merge.upper_bound::bigint * 1024;
        with survivor as materialized (
            select v.message_id, v.why from mqpg._survivors(v_from, v_to, 9223372036854775807, null) v
        ),
        needed as (
            select s.message_id >> 10 as batch_id from survivor s
            union
            select u.id >> 10
            from mqpg.consume_queue c
            left join mqpg.queue_tail f on f.topic_id = c.topic_id and f.queue_id = c.queue_id
                and f.subscription_id = 0
            cross join lateral unnest(c.first_ids || c.deliver_ids) as u(id)
            where c.topic_id = any(v_merge.topic_ids) and u.id >= v_from and u.id < v_to
                and case c.subscription_id
                    when 0 then c.base_offset + c.n > coalesce(f.oldest_offset, 0)
                    else c.base_offset + c.n > (
                        select k.committed from mqpg.cursor k
                        where k.subscription_id = c.subscription_id and k.queue_id = -1
                        order by k.version desc limit 1)
                end
        )
        select coalesce(array_agg(n.batch_id order by n.batch_id), '{}'), (
            select coalesce(array_agg(distinct s.message_id), '{}') from survivor s
            where s.why in ('undecided', 'delayed'))
        into v_merge.needed_batches, v_merge.undecided_ids
        from needed n;
        if cardinality(v_merge.undecided_ids) > 10000 then
            return query select c.* from mqpg._cancel_merge('log', format(
                '%s of its messages may still be decided', cardinality(v_merge.undecided_ids))) c;
            return;
        end if;
    end if;
    update mqpg.segment_merge m
    set needed_batches = v_merge.needed_batches, undecided_ids = v_merge.undecided_ids, copied_to = null, parent = (
        select f.parent from mqpg._family_tables(v_merge.family) f limit 1)
    where m.family = v_merge.family;
    return query select 'merging', v_merge.family, v_merge.segment_nos[1], format('%s batches of them are still needed',
        cardinality(v_merge.needed_batches));
end
$$;

-- The condition by which a merge copies a row x of a table, as SQL text. Its parameters are $1: the
-- topics that are past retention; $2: record batches that are needed; $3 and $4: the bounds.
-- Locks: none. Cost: negligible.
create function mqpg._merge_condition(parent text, segment_no bigint) returns text
language sql stable as $$
    select case _merge_condition.parent
        when 'half_tick' then
            'x.half_tick_id = (select max(h.half_tick_id) from mqpg.half_tick h'
            ' where h.half_tick_id >= $3::bigint and h.half_tick_id < $4::bigint)'
        when 'tick' then format(
            'exists (select from mqpg.%I c where c.tick_id = x.tick_id) or x.tick_id = ('
            'select max(k.tick_id) from mqpg.tick k where k.tick_id >= $3::bigint and k.tick_id < $4::bigint)',
            mqpg._merge_name('consume_queue', _merge_condition.segment_no))
        when 'check_log' then format(
            'exists (select from mqpg.%I o where o.message_id = x.message_id)'
            ' or exists (select from mqpg.%I l where l.batch_id = x.message_id >> 10)'
            ' or exists (select from mqpg.held h where h.message_id = x.message_id)',
            mqpg._merge_name('op_log', _merge_condition.segment_no),
            mqpg._merge_name('commit_log', _merge_condition.segment_no))
        else
            'x.topic_id <> all($1::int[]) and exists (select from mqpg.topic t where t.topic_id = x.topic_id) or '
            || case _merge_condition.parent
                when 'commit_log' then 'x.batch_id = any($2::bigint[])'
                when 'op_log' then format(
                    'x.at > clock_timestamp() - mqpg._setting(''op_log_keep'')::interval - coalesce('
                    '(select t.retention from mqpg.topic t where t.topic_id = x.topic_id), ''0'')'
                    ' or exists (select from mqpg.%I l where l.batch_id in (x.message_id >> 10, x.deliver_id >> 10))'
                    ' or exists (select from mqpg.held h where h.message_id = x.message_id)'
                    ' or x.stage = 1 and exists (select from mqpg.delayed d where d.first_id <= x.message_id'
                    '     and d.first_id > x.message_id - 1024)'
                    ' or x.op = ''c'' and not pg_visible_in_snapshot(x.xid,'
                    '     (select k.snapshot from mqpg.tick k order by k.tick_id desc limit 1))',
                    mqpg._merge_name('commit_log', _merge_condition.segment_no))
                when 'consume_queue' then
                    'x.subscription_id = 0 and x.topic_id = any($1::int[]) and x.base_offset + x.n > coalesce('
                    '(select f.oldest_offset from mqpg.queue_tail f where f.topic_id = x.topic_id'
                    ' and f.queue_id = x.queue_id and f.subscription_id = 0), 0)'
                    ' or x.subscription_id <> 0 and x.base_offset + x.n > (select k.committed from mqpg.cursor k'
                    ' where k.subscription_id = x.subscription_id and k.queue_id = -1 order by k.version desc limit 1)'
                    ' or exists (select from mqpg.dropped_topic d join mqpg.tick k on k.at > d.dropped_at'
                    ' where d.topic_id = x.topic_id and k.tick_id = x.tick_id)'
                when 'delayed' then
                    'exists (select from mqpg.tick k where k.tick_id = (select max(m.tick_id) from mqpg.tick m)'
                    ' and (x.visible_at > k.due_until or not pg_visible_in_snapshot(x.xid, k.snapshot)))'
                    ' or exists (select from mqpg.commit_log l where l.batch_id = x.first_id >> 10)'
                    ' or exists (select from mqpg.held h where h.message_id between x.first_id and x.first_id + x.n - 1)'
            end
    end
$$;

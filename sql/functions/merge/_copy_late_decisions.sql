-- Copies decisions and checks that were written after a merge had copied their tables. They can
-- only concern messages that were undecided when the merge looked. Returns how many.
-- Locks: none. Cost: two lookups for each such message.
create function mqpg._copy_late_decisions(merge mqpg.segment_merge) returns bigint
language plpgsql as $$
declare
    v_merge mqpg.segment_merge := _copy_late_decisions.merge;
    v_rows bigint;
    v_more bigint;
begin
    if v_merge.family <> 'log' or v_merge.undecided_ids = '{}' then
        return 0;
    end if;
    execute format(
        'insert into mqpg.%1$I select o.* from unnest($1) as u(id) join mqpg.op_log o on o.message_id = u.id'
        ' and o.message_id >= $2 and o.message_id < $3'
        ' where not exists (select from mqpg.%1$I k where k.message_id = o.message_id and k.stage = o.stage)',
        mqpg._merge_name('op_log', v_merge.segment_nos[1]))
    using v_merge.undecided_ids, v_merge.lower_bound::bigint * 1024, v_merge.upper_bound::bigint * 1024;
    get diagnostics v_rows = row_count;
    execute format(
        'insert into mqpg.%1$I select o.* from unnest($1) as u(id) join mqpg.check_log o on o.message_id = u.id'
        ' and o.message_id >= $2 and o.message_id < $3'
        ' where not exists (select from mqpg.%1$I k where k.message_id = o.message_id and k.at = o.at'
        '     and k.event = o.event)',
        mqpg._merge_name('check_log', v_merge.segment_nos[1]))
    using v_merge.undecided_ids, v_merge.lower_bound::bigint * 1024, v_merge.upper_bound::bigint * 1024;
    get diagnostics v_more = row_count;
    return v_rows + v_more;
end
$$;

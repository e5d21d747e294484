-- Whether the next table that keep() would release of a closed segment has to wait for the archive,
-- because it has rows of a topic that asks for one. For a log segment that is commit_log and, when
-- its bodies are gone, op_log. For ticks it is consume_queue and tick together, because they are
-- released together. A slot of cursor waits when it has positions on such a topic.
-- Locks: none.
-- Cost: negligible where no topic asks, or the segment is archived. Otherwise it reads the
-- segment's table until it finds such a row.
create function mqpg._awaits_archive(segment mqpg.segment) returns boolean
language plpgsql stable as $$
declare
    v_topics int [] := array(select t.topic_id from mqpg.topic t where t.archive);
    v_table text := case
        when (_awaits_archive.segment).family = 'log' and (_awaits_archive.segment).body_dropped_at is null
            then 'commit_log'
        when (_awaits_archive.segment).family = 'log' then 'op_log'
    end;
    v_query text;
    v_found boolean;
begin
    if v_topics = '{}' or (_awaits_archive.segment).family = 'dedup' or mqpg._is_archived(
        (_awaits_archive.segment).family, (_awaits_archive.segment).lower_bound, (_awaits_archive.segment).upper_bound,
        v_table) then
        return false;
    end if;
    select format(
        case (_awaits_archive.segment).family
            when 'cursor' then
                'select exists (select from mqpg.subscription s where s.topic_id = any($1) and exists ('
                'select from mqpg.%1$I x where x.subscription_id = s.subscription_id and x.%2$I >= %3$L and x.%2$I < %4$L))'
            when 'tick' then
                'select exists (select from unnest($1) t(topic_id) where exists ('
                'select from mqpg.%1$I x where x.topic_id = t.topic_id and x.%2$I >= %3$L and x.%2$I < %4$L))'
            else
                'select exists (select from mqpg.%1$I x where x.topic_id = any($1) and x.%2$I >= %3$L and x.%2$I < %4$L)'
        end, f.parent, mqpg._partition_column(f.parent),
        mqpg._scaled_bound((_awaits_archive.segment).lower_bound, f.per_unit),
        mqpg._scaled_bound((_awaits_archive.segment).upper_bound, f.per_unit))
    into v_query
    from mqpg._archived_tables((_awaits_archive.segment).family) f
    where f.parent = coalesce(v_table, f.parent)
    limit 1;
    execute v_query into v_found using v_topics;
    return v_found;
end
$$;

-- About how many bytes of the commit log the messages at the offsets from_offset to to_offset - 1
-- of a queue take: the average of their first 64 runs, times their number.
-- Locks: none. Cost: reads the rows of up to 64 record batches, no bodies.
create function mqpg._stored_bytes(
    topic_id int, queue_id int, subscription_id int, from_offset bigint, to_offset bigint
) returns bigint
language plpgsql stable as $$
declare
    v_runs record;
    v_each numeric;
begin
    if _stored_bytes.from_offset >= _stored_bytes.to_offset then
        return 0;
    end if;
    v_runs := mqpg._runs(
        _stored_bytes.topic_id, _stored_bytes.queue_id, _stored_bytes.subscription_id, _stored_bytes.from_offset,
        least(_stored_bytes.to_offset, _stored_bytes.from_offset + 4096));
    select sum(l.size) / sum(l.n) into v_each
    from (
        select l.n, pg_column_size(l.payloads) + coalesce(pg_column_size(l.headers), 0)
            + coalesce(pg_column_size(l.keys), 0) + 100 as size
        from mqpg.commit_log l
        where l.batch_id in (select b / 1024 from unnest(v_runs.bodies[:64]) b)
            and l.batch_id between v_runs.lowest and v_runs.highest
        union all
        select 1, pg_column_size(h.payload) + coalesce(pg_column_size(h.headers), 0) + 100
        from mqpg.held h where h.message_id = any(v_runs.bodies[:64])
    ) as l;
    return ceil(coalesce(v_each, 0) * (_stored_bytes.to_offset - _stored_bytes.from_offset));
end
$$;

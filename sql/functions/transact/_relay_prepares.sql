-- Sends the PREPARE of half messages that were just stored in a relay topic (protocol T4): one
-- message for each, in the half message's queue, with its key, tag and body. The half messages
-- themselves stay as they are, so check-backs and decisions work as in any topic.
-- Locks: only the new rows. Cost: one row for each record batch.
create function mqpg._relay_prepares(batch_ids bigint []) returns void
language plpgsql set plan_cache_mode = force_generic_plan set enable_seqscan = off set jit = off as $$
declare
    v_least bigint := (select min(b.id) from unnest(_relay_prepares.batch_ids) as b(id));
    v_most bigint := (select max(b.id) from unnest(_relay_prepares.batch_ids) as b(id));
    v_half mqpg.commit_log;
    v_headers jsonb [];
    v_batch bigint;
begin
    for v_half in
        select l.* from mqpg.commit_log l
        where l.batch_id = any(_relay_prepares.batch_ids) and l.batch_id between v_least and v_most
        order by l.batch_id
    loop
        v_batch := nextval('mqpg.batch_id');
        v_headers := array(
            select mqpg._phase_headers(v_half.headers[i + 1], 'prepare',
                mqpg._handle(v_half.incarnation, v_half.batch_id * 1024 + i, v_half.nonce))
            from generate_series(0, v_half.n - 1) as i order by i);
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads, checksum)
        values (
            v_batch, v_half.xid, v_half.born_at, v_half.topic_id, v_half.queue_id, v_half.n, 'n',
            v_half.keys, v_half.tags, v_headers, v_half.payloads,
            case
                when v_half.checksum is not null
                    then mqpg._checksum(
                        v_batch, v_half.topic_id, v_half.payloads::text [], v_half.keys, v_half.tags, v_headers)
            end);
    end loop;
end
$$;

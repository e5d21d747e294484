-- Sends the COMMIT or ROLLBACK of relay topics' half messages that a call has just decided
-- (protocol T4). Each becomes a message in the queue of its PREPARE, under the batch id that the
-- decision names. COMMIT carries the final payload, else the prepared one, so that a consumer needs
-- nothing else; ROLLBACK carries null. A half message with a delay delays its COMMIT. The arguments
-- are those of _store_finals(); `decided` are only the relay topics' half messages.
-- Locks: none beyond the new rows. Cost: one row read and one written for each.
create function mqpg._relay_decisions(
    xid xid8, at timestamptz, op "char", ids bigint [], payloads text [], halves bigint [], batches bigint [],
    decided bigint []
) returns void
language plpgsql as $$
begin
    with fate as materialized (
        select u.batch, f.topic_id, f.queue_id, f.key, f.tag, f.delay, t.checksums,
            mqpg._phase_headers(f.headers, case _relay_decisions.op when 'c' then 'commit' else 'rollback' end,
                mqpg._handle(f.incarnation, u.id, f.nonce)) as headers,
            case when _relay_decisions.op = 'c' then coalesce(p.payload::json, f.payload) else 'null' end as payload
        from unnest(_relay_decisions.halves, _relay_decisions.batches) as u(id, batch)
        cross join lateral mqpg._message(u.id) as f
        left join lateral (
            select g.payload
            from unnest(_relay_decisions.ids, _relay_decisions.payloads) with ordinality as g(id, payload, o)
            where g.id = u.id order by g.o limit 1
        ) as p on true
        left join mqpg.topic t on t.topic_id = f.topic_id
        join lateral mqpg._require_payload('payload', coalesce(p.payload, ''), t.name, t.max_payload) as checked on true
        where u.id = any(_relay_decisions.decided)
        order by u.id
    ),
    stored as (
        insert into mqpg.commit_log (
            batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads, checksum)
        select f.batch, _relay_decisions.xid, _relay_decisions.at, f.topic_id, f.queue_id, 1,
            case when _relay_decisions.op = 'c' and f.delay is not null then 'd' else 'n' end,
            case when f.key is not null then array[f.key] end, case when f.tag is not null then array[f.tag] end,
            array[f.headers], array[f.payload],
            case
                when f.checksums then mqpg._checksum(f.batch, f.topic_id, f.payload::text, f.key, f.tag, f.headers)
            end
        from fate f
    )
    insert into mqpg.delayed (visible_at, xid, first_id, n, written_at, topic_id, queue_id)
    select _relay_decisions.at + f.delay + b.ahead, _relay_decisions.xid, f.batch * 1024, 1, b.written_at,
        f.topic_id, f.queue_id
    from fate f
    cross join mqpg._broker_time(_relay_decisions.at) b
    where _relay_decisions.op = 'c' and f.delay is not null;
end
$$;

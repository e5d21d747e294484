-- Writes the final payloads of a commit_batch() for the half messages that the call decided. A
-- handle named twice keeps the payload of its first place.
-- Locks: none beyond the new rows. Cost: one row for each final payload.
create function mqpg._store_finals(
    xid xid8, at timestamptz, ids bigint [], payloads text [], halves bigint [], finals bigint [], decided bigint []
) returns void
language plpgsql as $$
begin
    if _store_finals.payloads is null then
        return;
    end if;
    insert into mqpg.commit_log (
        batch_id, xid, born_at, topic_id, queue_id, n, kind, keys, tags, headers, payloads, checksum)
    select h.final, _store_finals.xid, _store_finals.at, f.topic_id, f.queue_id, 1, 'f',
        case when f.key is not null then array[f.key] end, case when f.tag is not null then array[f.tag] end,
        case when f.headers is not null then array[f.headers] end, array[p.payload::json],
        case when t.checksums then mqpg._checksum(h.final, f.topic_id, p.payload, f.key, f.tag, f.headers) end
    from unnest(_store_finals.halves, _store_finals.finals) as h(id, final)
    join lateral mqpg._message(h.id) as f on true
    join lateral (
        select u.payload from unnest(_store_finals.ids, _store_finals.payloads) with ordinality as u(id, payload, o)
        where u.id = h.id order by u.o limit 1
    ) as p on true
    left join mqpg.topic t on t.topic_id = f.topic_id
    join lateral mqpg._require_payload('payloads', p.payload, t.name, t.max_payload) as checked on true
    where h.id = any(_store_finals.decided) and h.final is not null;
end
$$;

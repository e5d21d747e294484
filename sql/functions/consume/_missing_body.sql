-- Raises MQ014: offsets without a body are an error, never a skip. Or 40001 where a segment was dropped since the
-- caller's snapshot was taken (or a moment ago, during the call): its table is gone for everybody at once, what
-- keep() copied out of it is not to be seen in an older snapshot, and trying again finds it.
-- Locks: none. Cost: none.
create function mqpg._missing_body(topic text, queue_id int, from_offset bigint, to_offset bigint, got bigint)
returns void
language plpgsql as $$
begin
    if exists (
        select from mqpg.segment s
        where s.family = 'log' and (
            s.body_dropped_at > clock_timestamp() - interval '1 minute'
            or (s.body_dropped_at is null and to_regclass('mqpg.commit_log_' || s.segment_no) is null))
    ) then
        raise exception using errcode = '40001', message = format(
            'a segment was dropped while queue %s of topic %L was read: try the transaction again',
            _missing_body.queue_id, _missing_body.topic);
    end if;
    raise exception using errcode = 'MQ014', message = format(
        'queue %s of topic %L lacks message bodies: offsets %s to %s hold %s', _missing_body.queue_id,
        _missing_body.topic, _missing_body.from_offset, _missing_body.to_offset - 1, _missing_body.got);
end
$$;
comment on function mqpg._missing_body(text, int, bigint, bigint, bigint) is 'Internal: a body is missing';

-- Raises the error for offsets without a body, which are never skipped. If a segment was dropped
-- after the caller's snapshot was taken, or during the call, the error is 40001: a dropped table is
-- gone for every transaction at once, but an older snapshot does not show what keep() copied out of
-- it. Trying again finds the messages.
-- got: how many of them have a body; null: unknown.
-- Locks: none. Cost: negligible.
-- Errors: MQ014, 40001.
create function mqpg._refuse_missing_body(topic text, queue_id int, from_offset bigint, to_offset bigint, got bigint)
returns void
language plpgsql as $$
begin
    if exists (
        select from mqpg.segment s
        where s.family = 'log' and (
            s.body_dropped_at > clock_timestamp() - interval '1 minute'
            or (s.body_dropped_at is null and not mqpg._is_attached('commit_log', s.segment_no)))
    ) then
        raise exception using errcode = '40001', message = format(
            'a segment was dropped while queue %s of topic %L was read: try the transaction again',
            _refuse_missing_body.queue_id, _refuse_missing_body.topic);
    end if;
    raise exception using errcode = 'MQ014', message = format(
        'queue %s of topic %L lacks message bodies: offsets %s to %s have only %s', _refuse_missing_body.queue_id,
        _refuse_missing_body.topic, _refuse_missing_body.from_offset, _refuse_missing_body.to_offset - 1,
            coalesce(_refuse_missing_body.got::text, 'some'));
end
$$;

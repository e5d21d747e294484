-- Raises MQ014: offsets without a body are an error, never a skip.
-- Locks: none. Cost: none.
create function mqpg._missing_body(topic text, queue_id int, from_offset bigint, to_offset bigint, got bigint)
returns void
language plpgsql as $$
begin
    raise exception using errcode = 'MQ014', message = format(
        'queue %s of topic %L lacks message bodies: offsets %s to %s hold %s', _missing_body.queue_id,
        _missing_body.topic, _missing_body.from_offset, _missing_body.to_offset - 1, _missing_body.got);
end
$$;
comment on function mqpg._missing_body(text, int, bigint, bigint, bigint) is 'Internal: a body is missing';

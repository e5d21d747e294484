-- Raises MQ028 if the topic, or the broker, was at its max_bytes when it was last measured.
-- Locks: none. Cost: negligible.
create function mqpg._require_space(topic mqpg.topic) returns void
language plpgsql stable as $$
begin
    if (_require_space.topic).full_of = 'topic' then
        raise exception using errcode = 'MQ028', message = format(
            'topic %L is at its max_bytes, %s', (_require_space.topic).name, (_require_space.topic).max_bytes),
            hint = 'It takes messages again when retention has dropped some, or alter_topic() has raised max_bytes.';
    elsif (_require_space.topic).full_of = 'broker' then
        raise exception using errcode = 'MQ028', message = format(
            'the broker is at its max_bytes, %s', mqpg._setting('max_bytes')),
            hint = 'It takes messages again when retention has dropped some, or the setting max_bytes was raised.';
    end if;
end
$$;

-- Validates the arguments that choose dead letters: message_ids and filter.
-- Locks: none. Cost: negligible.
-- Errors: MQ001 (message_ids), MQ020 (filter).
create function mqpg._require_dead_letter_choice(message_ids bigint [], filter jsonpath) returns void
language plpgsql immutable as $$
begin
    if array_ndims(_require_dead_letter_choice.message_ids) > 1
        or array_position(_require_dead_letter_choice.message_ids, null) is not null then
        raise exception using errcode = 'MQ001',
            message = 'message_ids must be a one-dimensional array without null; leave it out for all';
    end if;
    perform mqpg._require_filter(_require_dead_letter_choice.filter, null);
end
$$;

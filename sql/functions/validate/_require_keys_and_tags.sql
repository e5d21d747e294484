-- Raises for keys and tags of more than 512 bytes, because they are indexed and repeated in each
-- delivery.
-- Locks: none. Cost: one look at each.
create function mqpg._require_keys_and_tags(argument text, texts text []) returns void
language plpgsql immutable as $$
begin
    if exists (select from unnest(_require_keys_and_tags.texts) u(l) where octet_length(u.l) > 512) then
        raise exception using errcode = 'MQ001',
            message = format('%s must not be longer than 512 bytes', _require_keys_and_tags.argument);
    end if;
end
$$;

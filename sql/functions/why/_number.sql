-- A number for a sentence, with commas between thousands.
-- Locks: none. Cost: negligible.
create function mqpg._number(value bigint) returns text
language sql immutable strict as $$
    select to_char(_number.value, 'FM9,999,999,999,999,999,990')
$$;

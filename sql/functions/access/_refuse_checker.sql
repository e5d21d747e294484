-- Raises the error for a checker function that calls mqpg, and for any transaction that has written
-- and was then made read-only.
-- Locks: none. Cost: an error.
create function mqpg._refuse_checker() returns name
language plpgsql stable as $$
begin
    raise exception using errcode = 'MQ025',
        message = 'mqpg is not open to a checker function, nor to a transaction that wrote and was then made read-only',
        hint = 'A checker function decides by tables of its own.';
end
$$;

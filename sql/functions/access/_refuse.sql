-- Raises the error for a caller that lacks a right. It names the grant that is missing, and is the
-- same whether or not the thing exists, so that nobody finds out names by trying.
-- Arguments:
--   lacks: what the caller may not do, as the end of a sentence.
--   missing: the call that would give the right, with `role` for the caller's name.
-- Locks: none. Cost: an error.
-- Errors: MQ025, always.
create function mqpg._refuse(lacks text, missing text) returns void
language plpgsql stable as $$
begin
    raise exception using errcode = 'MQ025',
        message = format('role %I %s', mqpg._caller(), _refuse.lacks),
        hint = format('Missing: %s.', regexp_replace(
            replace(_refuse.missing, 'role)', format('%L)', mqpg._caller())), '^grant_', 'mqpg.grant_'));
end
$$;

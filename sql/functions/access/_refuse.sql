-- Raises the error for a caller that lacks a right. It names the grant that is missing, and is the
-- same whether or not the thing exists, so that nobody finds out names by trying.
-- Arguments:
--   lacks: what the caller may not do, as the end of a sentence.
--   grant_name, arguments: the call that would give the right, without `role`. An argument that the
--       error must not name, or does not know, is null.
-- Locks: none. Cost: an error.
create function mqpg._refuse(lacks text, grant_name text, arguments jsonb) returns void
language plpgsql stable as $$
declare
    v_arguments jsonb := _refuse.arguments || jsonb_build_object('role', mqpg._caller());
begin
    raise exception using errcode = 'MQ025',
        message = format('role %I %s', mqpg._caller(), _refuse.lacks),
        detail = mqpg._remedy(_refuse.grant_name, v_arguments)::text,
        hint = format('Missing: mqpg.%s(%s).', _refuse.grant_name, (
            select string_agg(format('%s => %s', a.key, coalesce(quote_literal(a.value), '...')), ', ')
            from jsonb_each_text(v_arguments) a));
end
$$;

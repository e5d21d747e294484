-- PostgreSQL's jsonb_path_match() for the view mqpg_audit.unmatched, where an error is no match: of
-- JSON that jsonb refuses, or of the path. It shares no code with the filters of receive(), so the audit
-- does not repeat an error of theirs. An error text could show a body to an auditor.
-- Locks: none. Cost: parses the payload, in a subtransaction.
create function mqpg._path_matches(document json, path jsonpath, vars jsonb) returns boolean
language plpgsql immutable security definer set search_path = pg_catalog, pg_temp as $$
begin
    return coalesce(jsonb_path_match(_path_matches.document::jsonb, _path_matches.path, _path_matches.vars, true), false);
exception when data_exception or feature_not_supported or program_limit_exceeded or undefined_object then
    return false;
when internal_error then
    if sqlerrm not like 'invalid memory alloc request size %' then
        raise;
    end if;
    return false;
end
$$;

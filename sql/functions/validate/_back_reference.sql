-- The first back-reference in the regular expressions of a filter, such as \1, or null. The text of
-- a jsonpath quotes every string and every key, so a bare like_regex is the operator, and the
-- quoted word behind it is the pattern. Within the pattern a backslash belongs to the character
-- behind it, so \\1 is none. With flag "q" the pattern is no regular expression.
-- Locks: none. Cost: two regular expressions without back-references.
create function mqpg._back_reference(filter jsonpath) returns text
language sql immutable as $$
    select e.escape[1]
    from (
        select t.token[1] as word, lag(t.token[1]) over (order by t.i) as before,
            lead(t.token[1]) over (order by t.i) as behind, lead(t.token[1], 2) over (order by t.i) as flags
        from regexp_matches(
            _back_reference.filter::text, E'("(?:[^"\\\\]|\\\\.)*"|like_regex|flag)', 'g') with ordinality as t(token, i)
    ) as p,
    regexp_matches((p.word::jsonb) #>> '{}', E'(\\\\.)', 'g') with ordinality as e(escape, i)
    where p.before = 'like_regex' and not (coalesce(p.behind, '') = 'flag' and p.flags like '%q%')
        and e.escape[1] ~ E'^\\\\[1-9]$'
    limit 1
$$;

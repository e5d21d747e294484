-- Shortens segments of the log, so that message ids stay below 2^53 for 22 years instead of 5.
-- breaking: no
update mqpg.settings as s set
    most = '1099511627776',
    value = case s.value when '1073741824' then '268435456' else least(s.value::bigint, 1099511627776)::text end
where s.name = 'segment_ids';

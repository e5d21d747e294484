-- Ranges of message ids whose segments are read from an archive. Bodies are not in it.
create temp table archived_range (lower_id bigint not null, upper_id bigint not null);

-- Pairs of messages with one dedup id, at least one of them judged, that a valid audit has seen.
create temp table judged_pair (message_id bigint not null, other_id bigint not null);

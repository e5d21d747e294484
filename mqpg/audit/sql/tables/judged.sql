-- What earlier valid audits have judged: a single row. Ticks up to last_tick and messages with ids
-- below until_id are judged, apart from those in open_message. Nothing is: -1 and 0.
-- reading: the files in read/ return what is to be judged now. False: they return the rest, whose
-- fingerprints are compared.
create temp table judged (reading boolean not null, last_tick bigint not null, until_id bigint not null);

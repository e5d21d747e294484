-- Topics that exist and are not audited. Dropped topics are read, because the ids of their messages
-- may appear elsewhere.
create temp table other_topic (topic_id int not null);

-- Notes what a topic's policies were, also if its owner changes them without alter_topic().
-- Cost: one row for each policy that changes.
create trigger topic_policies after update of retention, message_ttl, lose_after, lose_over, checksums on mqpg.topic
for each row execute function mqpg._note_former_policies();

-- Notes the policies of a topic that an update replaces in the table former_setting.
-- Locks: none. Cost: one row for each policy that changes.
create function mqpg._note_former_policies() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    insert into mqpg.former_setting (topic_id, name, value)
    select old.topic_id, p.name, p.value
    from (
        values ('retention', old.retention::text, new.retention::text),
        ('message_ttl', old.message_ttl::text, new.message_ttl::text),
        ('lose_after', old.lose_after::text, new.lose_after::text),
        ('lose_over', old.lose_over::text, new.lose_over::text),
        ('checksums', old.checksums::text, new.checksums::text)
    ) as p (name, value, now)
    where p.value is distinct from p.now;
    return null;
end
$$;

-- What a decision came to: said to the caller of commit and rollback, never swallowed (protocol T2, step 3).
create type mqpg.outcome as enum
    ('committed', 'already_committed', 'rolled_back', 'already_rolled_back', 'unknown');
comment on type mqpg.outcome is 'Result of commit or rollback; the first decision stands and repeats say so';

-- Result of commit or rollback: the first decision stands, and a repeated one gets an already_…
-- value. The caller always gets it (protocol T2, step 3).
create type mqpg.outcome as enum
    ('committed', 'already_committed', 'rolled_back', 'already_rolled_back', 'unknown');

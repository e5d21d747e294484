-- Release and checksum of the installed functions and views. One row. `mqpg migrate` replaces them
-- as a whole when the checksum of its own differs.
create table mqpg.installation (
    singleton boolean primary key default true check (singleton),  -- Always true: the table has exactly one row
    release text not null,
    checksum text not null,  -- SHA-256 of the text of all functions and views
    replaced_at timestamptz not null default clock_timestamp(),
    breaking int not null default 0  -- The last migration that clients and workers must know or stop; 0: there is none
);

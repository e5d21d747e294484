-- Files of the archive: ranges of the append-only tables. `mqpg archive` has written and verified
-- each of them. A row stays when its segment is merged or dropped. The ranges of one table do not
-- overlap.
create table mqpg.archived_segment (
    table_name text not null,
    lower_bound text not null,
    upper_bound text not null,
    family text not null,
    segment_no bigint not null,
    incarnation int not null,
    location text not null,
    columns text [] not null,
    n bigint not null,
    digest numeric not null,
    left_out int [] not null,
    archived_at timestamptz not null default clock_timestamp(),
    archived_by text not null,
    primary key (table_name, lower_bound)
);
comment on column mqpg.archived_segment.table_name is 'commit_log | op_log | consume_queue | tick | cursor | delayed';
comment on column mqpg.archived_segment.lower_bound is 'Inclusive, in units of the table''s partition key';
comment on column mqpg.archived_segment.upper_bound is 'Exclusive';
comment on column mqpg.archived_segment.segment_no is
    'The segment that held the range then; a merge may have given it to another one';
comment on column mqpg.archived_segment.incarnation is
    'The broker''s; transaction ids of another incarnation mean nothing';
comment on column mqpg.archived_segment.location is 'The file, relative to the folder of the archive';
comment on column mqpg.archived_segment.columns is 'The columns of the audit view that the file has';
comment on column mqpg.archived_segment.n is 'Number of rows';
comment on column mqpg.archived_segment.digest is 'Sum of a hash of each row';
comment on column mqpg.archived_segment.left_out is
    'Topics of which a merge had left out messages before the file was written';
comment on column mqpg.archived_segment.archived_by is 'The role that noted it';

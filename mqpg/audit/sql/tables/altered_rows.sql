-- Why what a valid audit had judged is not as it was, if mqpg never changes such rows.
create temp table altered_rows (why text not null);

"""What a call costs: PostgreSQL's instructions, counted by Valgrind and not timed."""

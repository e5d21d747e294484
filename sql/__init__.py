"""The SQL of mqpg: one object per file, and the numbered migrations that install them."""

"""The SQL of mqpg: one object per file, numbered migrations beside it."""

"""mqpg in other frameworks."""

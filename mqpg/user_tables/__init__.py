"""The tables in users' databases: their columns, dialects and upgrades."""

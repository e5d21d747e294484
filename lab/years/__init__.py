"""A year in an hour: time runs fast, and nothing may grow."""

"""mqpg: a transactional message queue that lives inside PostgreSQL."""

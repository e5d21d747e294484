"""mqpg beside the Python job queues procrastinate and pgqueuer: `make bench-peers`."""

"""What both libraries share about handlers: options, failures, and outcomes."""

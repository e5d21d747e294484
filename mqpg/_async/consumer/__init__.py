"""The consumer: iterations of receive, effect and acknowledgement (protocols C1, C2 and C3)."""

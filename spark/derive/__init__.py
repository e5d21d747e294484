"""Deriving: from rows as stored to one row for each message, queue entry, delivery and half message.

`messages` says what became of every message, `deliveries` what every consumer group did, and
`conservation` counts both. `frames` puts all derived frames together for the anomalies.
"""

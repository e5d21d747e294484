"""Deriving: from rows as stored to one row for each message, queue entry and delivery.

`messages` says what happened to every message, `deliveries` what every consumer group did, and
`conservation` counts both. `frames` puts all derived frames together for the anomalies.
"""

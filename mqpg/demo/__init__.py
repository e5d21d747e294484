"""The flights demo: real departures as business transactions, under kills, proved by the audit.

`mqpg demo` runs it. The parts: `flights` (the input file), `airline` (producer process), `board`
(consumer process), `chaos` (kill schedule), `orchestrate` (the run), `expected` (the truth to compare with).
"""

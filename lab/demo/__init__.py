"""The flights demo: real departures as business transactions, under kills, proved by the audit.

`python -m lab.demo` runs it. The parts are `flights` (the input file), `airline` (the producer
process), `board` (the consumer process), `kills` (their schedule), and `run`.
"""

"""Benchmarks: mqpg, pgmq and a bare INSERT or SELECT side by side, in one run on one server.

Run `make bench` or `python -m lab.bench --help`.
"""

"""The jobs behind the commands: the audit with its verdict and report, and the reconciliation.

A job reads, derives, looks for anomalies and returns what it found. `mqpg.spark.cli` prints it.
"""

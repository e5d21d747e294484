"""Metrics for Prometheus: what `mqpg worker --metrics` serves. Extra: `metrics`."""

"""Topics as batches and streams of Spark: the data source `mqpg`, a source and a sink."""

from __future__ import annotations

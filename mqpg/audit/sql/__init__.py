"""The SQL engine of `mqpg audit`: the same audit as Spark's, in plain SQL at the broker.

One session copies what the databases hold into temporary tables, each database at one snapshot. It
then derives and judges there. It calls no function of mqpg, and needs neither Java nor Spark. The
statements lie in the folders beside this file, one in each file:

* tables: the tables that the client fills;
* read: what is read at the broker's snapshot, one table for each file;
* frames: what follows from it, one table for each file;
* kinds: the anomalies, one kind for each file;
* totals: the counts of the report.

Each frame and kind has the definition of docs/prove/audit.md. No code is shared with the other
engine.
"""

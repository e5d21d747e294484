"""What an audit reads, derives and judges, as SQL; and the engine that runs all of it at the broker.

One session copies what the databases hold into temporary tables, each database at one snapshot. It
then derives and judges there. It calls no function of mqpg, and needs neither Java nor Spark. The
engine in Spark runs the same statements, those in frames, kinds and totals in Spark SQL. They lie in
the folders beside this file, one in each file:

* tables: the tables that the client fills;
* read: what is read at the broker's snapshot, one table for each file;
* frames: what follows from it, one table for each file;
* kinds: the anomalies, one kind for each file;
* conservation: the second definition, from the versions of the cursors. It reads no file of frames or
  kinds but in `found`, which names what the first definition has not found;
* totals: the counts of the report.

Each frame and kind has the definition of docs/prove/audit.md. The texts in frames, kinds,
conservation and totals keep to what PostgreSQL and Spark SQL both understand, and to the words that
`spark/dialect.py` lists: no arrays but in read, no `distinct on`, no function that only one of them
has.
"""

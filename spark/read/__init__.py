"""Reading: each database at one snapshot, as DataFrames with the columns of `schemas`.

`queries` and `user_queries` hold the SQL, `snapshot` pins a PostgreSQL database, `jdbc` reads it
with Spark, and `sqlalchemy_reader` reads any other database. `audit_reader` reads all databases of
one audit in the order that makes their snapshots comparable.
"""

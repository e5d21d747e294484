"""The data source of Spark at length: its rate beside JDBC, its lag, and millions of messages in and out."""

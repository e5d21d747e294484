"""The client: every call of the SQL API, one module for each kind of call."""

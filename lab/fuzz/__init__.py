"""Random calls of the whole surface: every SQL function, every method of the client, every command.

`make fuzz` runs 100,000 calls of SQL and some thousands of the others. `test_fuzz.py` is a small
part of it.
"""

"""Random calls of every public SQL function: `make fuzz` makes 100,000, and `test_fuzz.py` some."""

"""Half messages and their check-backs as a SPIN model, and the cases that are proved: `make prove`."""

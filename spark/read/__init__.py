"""Reading: each database at one snapshot, as frames in the columns of `schemas`."""

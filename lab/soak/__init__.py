"""Long runs of all modes of consumption: under kills (`make soak`), and through a fast year (`lab.years`)."""

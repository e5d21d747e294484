"""A package, so that no other distribution's top-level `tests` (wbjdbc installs one) is taken for it."""

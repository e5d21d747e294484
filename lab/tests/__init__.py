"""Tests of the rigs themselves."""

"""Attacks: what a role does that wants more than it was given."""

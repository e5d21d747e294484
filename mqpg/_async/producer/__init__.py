"""Producers whose business tables are not in the broker's database (protocols T2, T5 and T6)."""

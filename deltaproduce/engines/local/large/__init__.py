"""Rows that do not fit in memory: where they are, how they are split, and operations on them."""

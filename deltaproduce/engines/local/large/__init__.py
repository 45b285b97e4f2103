"""Rows that do not fit in memory: where they lie, in which parts, and what is done with them."""

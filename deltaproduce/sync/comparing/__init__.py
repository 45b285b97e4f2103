"""Comparisons: how the rows of a stage differ from those of a table in another database.

The invariant: nothing here knows a database, and nothing is written.
"""
